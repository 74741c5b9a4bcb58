// The declarations of the driver's cudaProfiler.h, which the wheels with CUDA's headers do not have.
#pragma once

#include <cuda.h>

#pragma GCC visibility push(default)
extern "C" {
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
}
#pragma GCC visibility pop
