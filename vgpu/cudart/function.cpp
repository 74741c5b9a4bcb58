// Kernels as objects: handles, attributes, occupancy.
#include "vgpu/cudart/program.hpp"

using namespace vgpu::cudart;

namespace {

// The driver's function for a stub or handle, with its variables in place on this thread's device.
cudaError_t ready_kernel(const void* stub, CUfunction& function) {
    Binary* owner = nullptr;
    if (const cudaError_t result = find_kernel(stub, function, owner); result != cudaSuccess || owner == nullptr)
        return result;
    int device = 0;
    const cudaError_t result = current_device(device);
    return result != cudaSuccess ? result : load_variables(*owner, device);
}

template <class Field>
cudaError_t read_attribute(Field& field, CUfunction_attribute attribute, CUfunction function) {
    int value = 0;
    const CUresult result = cuFuncGetAttribute(&value, attribute, function);
    field = static_cast<Field>(value);
    return runtime_error(result);
}

cudaError_t occupancy(const char* name, int* blocks, const void* stub, int block_size, size_t shared, unsigned flags) {
    return api(name, Needs::kContext, [&] {
        CUfunction function = nullptr;
        const cudaError_t result = ready_kernel(stub, function);
        if (result != cudaSuccess)
            return result;
        return runtime_error(
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, flags));
    });
}

}  // namespace

VGPU_CUDART_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void* stub) {
    return api("cudaFuncGetAttributes", Needs::kContext, [&]() -> cudaError_t {
        if (to == nullptr)
            return cudaErrorInvalidValue;
        CUfunction function = nullptr;
        if (const cudaError_t result = ready_kernel(stub, function); result != cudaSuccess)
            return result;
        *to = {};
        read_attribute(to->sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
        read_attribute(to->constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, function);
        read_attribute(to->localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
        read_attribute(to->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
        read_attribute(to->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION, function);
        read_attribute(to->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function);
        read_attribute(to->cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, function);
        read_attribute(to->maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
        read_attribute(to->preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, function);
        return read_attribute(to->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    });
}

// The two enumerations of function attributes share their numbers.
VGPU_CUDART_API cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
    return api("cudaFuncSetAttribute", Needs::kContext, [&]() -> cudaError_t {
        CUfunction function = nullptr;
        const cudaError_t result = ready_kernel(stub, function);
        if (result != cudaSuccess)
            return result;
        return runtime_error(cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value));
    });
}

VGPU_CUDART_API cudaError_t cudaFuncSetCacheConfig(const void* stub, cudaFuncCache config) {
    return api("cudaFuncSetCacheConfig", Needs::kContext, [&]() -> cudaError_t {
        CUfunction function = nullptr;
        const cudaError_t result = ready_kernel(stub, function);
        if (result != cudaSuccess)
            return result;
        return runtime_error(cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config)));
    });
}

VGPU_CUDART_API cudaError_t cudaFuncGetName(const char** name, const void* stub) {
    return api("cudaFuncGetName", Needs::kContext, [&] {
        CUfunction function = nullptr;
        const cudaError_t result = ready_kernel(stub, function);
        return result != cudaSuccess ? result : runtime_error(cuFuncGetName(name, function));
    });
}

VGPU_CUDART_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* stub) {
    return api("cudaGetFuncBySymbol", Needs::kContext, [&]() -> cudaError_t {
        return function == nullptr ? cudaErrorInvalidValue : ready_kernel(stub, *function);
    });
}

// The same handle again: the driver's calls take it, and so does cudaLaunchKernel in place of a stub.
VGPU_CUDART_API cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
    return api("cudaGetKernel", Needs::kContext, [&]() -> cudaError_t {
        return kernel == nullptr ? cudaErrorInvalidValue : ready_kernel(stub, *reinterpret_cast<CUfunction*>(kernel));
    });
}

VGPU_CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block_size,
                                                                          size_t shared) {
    return occupancy("cudaOccupancyMaxActiveBlocksPerMultiprocessor", blocks, stub, block_size, shared,
                     cudaOccupancyDefault);
}

VGPU_CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub,
                                                                                   int block_size, size_t shared,
                                                                                   unsigned flags) {
    return occupancy("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", blocks, stub, block_size, shared, flags);
}
