// The profiler's switches: there is no profiler of virtual GPUs, and without one the real driver takes these calls too.
#include "vgpu/cuda/api.hpp"

#pragma GCC visibility push(default)
#include <cudaProfiler.h>
#pragma GCC visibility pop

using namespace vgpu::cuda;

CUresult cuProfilerStart(void) {
    VGPU_ENTER(cuProfilerStart, Needs::Context);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void) {
    VGPU_ENTER(cuProfilerStop, Needs::Context);
    return CUDA_SUCCESS;
}
