// The profiler's switches: there is no profiler of virtual GPUs, and without one the real driver takes these calls too.
#include "vgpu/cuda/profiler.hpp"
#include "vgpu/cuda/api.hpp"

using namespace vgpu::cuda;

CUresult cuProfilerStart(void) {
    VGPU_ENTER(cuProfilerStart, Needs::Context);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void) {
    VGPU_ENTER(cuProfilerStop, Needs::Context);
    return CUDA_SUCCESS;
}
