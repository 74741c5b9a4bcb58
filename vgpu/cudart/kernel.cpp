// Launches. A launch of nvcc's triple-chevron form arrives as: __cudaPushCallConfiguration in the caller, then in the
// host stub
// __cudaPopCallConfiguration and cudaLaunchKernel (CUDA 12) or __cudaLaunchKernel with a handle from __cudaGetKernel
// (CUDA 13).
#include <vector>

#include "vgpu/cudart/program.hpp"

using namespace vgpu::cudart;

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));

namespace {

struct Configuration {
    dim3 grid;
    dim3 block;
    size_t shared;
    cudaStream_t stream;
};

// A stack, because a launch's arguments may contain launches.
thread_local std::vector<Configuration> pending;

// The driver calls a bad shape an invalid value; the runtime has its own error for it.
cudaError_t check_shape(dim3 grid, dim3 block, int device) {
    const auto within = [&](unsigned value, CUdevice_attribute attribute) {
        int limit = 0;
        return cuDeviceGetAttribute(&limit, attribute, device) == CUDA_SUCCESS && value >= 1 &&
               value <= static_cast<unsigned>(limit);
    };
    const bool fits =
        within(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) && within(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) &&
        within(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) && within(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
        within(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) && within(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    const unsigned long long threads = 1ULL * block.x * block.y * block.z;
    int limit = 0;
    const CUresult result = cuDeviceGetAttribute(&limit, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
    return fits && result == CUDA_SUCCESS && threads <= static_cast<unsigned>(limit) ? cudaSuccess
                                                                                     : cudaErrorInvalidConfiguration;
}

cudaError_t launch(const char* name, const void* stub, const Configuration& wanted, void** arguments,
                   cudaLaunchAttribute* attributes, unsigned attribute_count) {
    return api_on_stream(name, wanted.stream, [&]() -> cudaError_t {
        int device = 0;
        CUfunction function = nullptr;
        Binary* owner = nullptr;
        if (const cudaError_t result = current_device(device); result != cudaSuccess)
            return result;
        if (const cudaError_t result = find_kernel(stub, function, owner); result != cudaSuccess)
            return result;
        if (const cudaError_t result = check_shape(wanted.grid, wanted.block, device); result != cudaSuccess)
            return result;
        if (owner != nullptr)
            if (const cudaError_t result = load_variables(*owner, device); result != cudaSuccess)
                return result;
        CUlaunchConfig config{};
        config.gridDimX = wanted.grid.x;
        config.gridDimY = wanted.grid.y;
        config.gridDimZ = wanted.grid.z;
        config.blockDimX = wanted.block.x;
        config.blockDimY = wanted.block.y;
        config.blockDimZ = wanted.block.z;
        config.sharedMemBytes = static_cast<unsigned>(wanted.shared);
        config.hStream = wanted.stream;
        config.attrs = reinterpret_cast<CUlaunchAttribute*>(attributes);
        config.numAttrs = attribute_count;
        return runtime_error(cuLaunchKernelEx(&config, function, arguments, nullptr));
    });
}

}  // namespace

VGPU_CUDART_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
    pending.push_back({grid, block, shared, stream});
    return 0;
}

VGPU_CUDART_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    if (pending.empty())
        return remember(cudaErrorMissingConfiguration);
    *grid = pending.back().grid;
    *block = pending.back().block;
    *shared = pending.back().shared;
    *static_cast<cudaStream_t*>(stream) = pending.back().stream;
    pending.pop_back();
    return cudaSuccess;
}

VGPU_CUDART_API cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared,
                                             cudaStream_t stream) {
    return launch("cudaLaunchKernel", stub, {grid, block, shared, stream}, arguments, nullptr, 0);
}

VGPU_CUDART_API cudaError_t cudaLaunchKernel_ptsz(const void* stub, dim3 grid, dim3 block, void** arguments,
                                                  size_t shared, cudaStream_t stream) {
    return launch("cudaLaunchKernel", stub, {grid, block, shared, per_thread(stream)}, arguments, nullptr, 0);
}

VGPU_CUDART_API cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                                        size_t shared, cudaStream_t stream) {
    cudaLaunchAttribute cooperative{};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    return launch("cudaLaunchCooperativeKernel", stub, {grid, block, shared, stream}, arguments, &cooperative, 1);
}

VGPU_CUDART_API cudaError_t cudaLaunchCooperativeKernel_ptsz(const void* stub, dim3 grid, dim3 block, void** arguments,
                                                             size_t shared, cudaStream_t stream) {
    return cudaLaunchCooperativeKernel(stub, grid, block, arguments, shared, per_thread(stream));
}

VGPU_CUDART_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
    if (config == nullptr)
        return remember(cudaErrorInvalidValue);
    return launch("cudaLaunchKernelExC", stub,
                  {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream}, arguments,
                  config->attrs, config->numAttrs);
}

VGPU_CUDART_API cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* stub,
                                                     void** arguments) {
    if (config == nullptr)
        return remember(cudaErrorInvalidValue);
    cudaLaunchConfig_t mapped = *config;
    mapped.stream = per_thread(config->stream);
    return cudaLaunchKernelExC(&mapped, stub, arguments);
}

// The stub keeps the handle in a static variable and asks once. Without a twin it stays null, and every launch says so.
VGPU_CUDART_API cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* stub) {
    CUfunction function = nullptr;
    Binary* owner = nullptr;
    // The stub's own address is the handle: unlike the driver's function it leads to the variables that must be there
    // at the launch.
    const cudaError_t result = find_kernel(stub, function, owner);
    if (result == cudaSuccess)
        *handle = static_cast<cudaKernel_t>(const_cast<void*>(stub));
    return result;
}

VGPU_CUDART_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                               size_t shared, cudaStream_t stream) {
    return launch("cudaLaunchKernel", kernel, {grid, block, shared, stream}, arguments, nullptr, 0);
}

VGPU_CUDART_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                                    size_t shared, cudaStream_t stream) {
    return launch("cudaLaunchKernel", kernel, {grid, block, shared, per_thread(stream)}, arguments, nullptr, 0);
}
