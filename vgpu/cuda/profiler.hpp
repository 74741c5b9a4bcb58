// What the driver's cudaProfiler.h declares: the wheels that CUDA's headers come in have no such file.
#pragma once

#include <cuda.h>

#pragma GCC visibility push(default)
extern "C" {
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
}
#pragma GCC visibility pop
