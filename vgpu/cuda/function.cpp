// Questions about kernels.
#include "vgpu/cuda/module.hpp"

#include <algorithm>

#include "vgpu/core/settings.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

// The constant memory of the function's module, which all of its kernels share.
int constant_bytes(const Function& function) {
    std::size_t bytes = 0;
    if (function.module != nullptr)
        for (const ptx::Variable& variable : function.module->variables())
            if (variable.constant)
                bytes += variable.bytes;
    return static_cast<int>(bytes);
}

CUresult get(int* value, CUfunction_attribute attribute, const void* handle) {
    const auto function = function_of(handle);
    if (value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = function->kernel == nullptr ? 1024 : static_cast<int>(function->kernel->max_threads);
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
            *value = function->kernel == nullptr ? 0 : static_cast<int>(function->kernel->static_shared_bytes);
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
            *value = function->kernel == nullptr ? 0 : static_cast<int>(function->kernel->local_bytes);
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
            *value = constant_bytes(*function);
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
            *value = 0;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = 32;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
            *value = capability();
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = function->max_dynamic_shared;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            *value = -1;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult set(CUfunction_attribute attribute, int value, const void* handle) {
    const auto function = function_of(handle);
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    constexpr int kOptIn = 232448;  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            if (value < 0 || value > kOptIn)
                return CUDA_ERROR_INVALID_VALUE;
            function->max_dynamic_shared = value;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

// Offsets as the device's calling convention lays parameters out: each aligned to its size, at most to 8.
CUresult parameter(const void* handle, std::size_t index, std::size_t* offset, std::size_t* size) {
    const auto function = function_of(handle);
    if (offset == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const ptx::Kernel* const kernel = function->kernel; kernel != nullptr) {
        if (index >= kernel->parameters.size())
            return CUDA_ERROR_INVALID_VALUE;
        *offset = kernel->parameters[index].offset;
        if (size != nullptr)
            *size = kernel->parameters[index].bytes;
        return CUDA_SUCCESS;
    }
    if (!function->twin.sizes_known)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (index >= function->twin.sizes.size())
        return CUDA_ERROR_INVALID_VALUE;
    std::size_t at = 0;
    for (std::size_t i = 0;; ++i) {
        const std::size_t bytes = function->twin.sizes[i];
        const std::size_t alignment = std::min<std::size_t>(8, bytes & (~bytes + 1));
        at = (at + alignment - 1) / alignment * alignment;
        if (i == index) {
            *offset = at;
            if (size != nullptr)
                *size = bytes;
            return CUDA_SUCCESS;
        }
        at += bytes;
    }
}

CUresult occupancy(int* blocks, const void* handle, int block_size, std::size_t shared) {
    if (blocks == nullptr || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    const auto function = function_of(handle);
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *blocks = resident_blocks(*function, block_size, shared);
    return CUDA_SUCCESS;
}

CUresult name_of(const char** name, const void* handle) {
    const auto function = function_of(handle);
    if (name == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = function->name.c_str();
    return CUDA_SUCCESS;
}

// Asking a function for its attributes, or setting one, loads it (CUDA programming guide, "Lazy Loading"): programs do
// so to have it loaded before anything waits.
void load_here(const void* handle) {
    const auto function = function_of(handle);
    Context* const context = current_context();
    if (function != nullptr && context != nullptr && context->active())
        load_function(*function, *context);
}

}  // namespace

namespace vgpu::cuda {

int resident_blocks(const Function& function, int block_size, std::size_t shared) {
    int most_threads = 1024;
    if (function.kernel != nullptr) {
        shared += function.kernel->static_shared_bytes;
        most_threads = static_cast<int>(function.kernel->max_threads);
    }
    constexpr int kThreads = 2048;
    constexpr int kBlocks = 32;
    constexpr std::size_t kShared = 233472;
    const int by_threads = block_size > most_threads ? 0 : kThreads / ((block_size + 31) / 32 * 32);
    const int by_shared = static_cast<int>(std::min<std::size_t>(kBlocks, kShared / (shared + 1024)));
    return std::min({kBlocks, by_threads, by_shared});
}

}  // namespace vgpu::cuda

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    VGPU_ENTER(cuFuncGetAttribute, Needs::Init);
    load_here(function);
    return get(value, attribute, function);
}

CUresult cuFuncLoad(CUfunction given) {
    VGPU_ENTER(cuFuncLoad, Needs::Context);
    const auto function = function_of(given);
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    load_function(*function, entry.context());
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction given) {
    VGPU_ENTER(cuFuncIsLoaded, Needs::Context);
    const auto function = function_of(given);
    if (state == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    const std::lock_guard guard(function->image->lock);
    const bool loaded = !settings().lazy_loading || function->loaded.contains(&entry.context());
    *state = loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    VGPU_ENTER(cuFuncSetAttribute, Needs::Init);
    load_here(function);
    return set(attribute, value, function);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
    VGPU_ENTER(cuFuncSetCacheConfig, Needs::Init);
    return function_of(function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice device) {
    VGPU_ENTER(cuKernelSetCacheConfig, Needs::Init);
    if (device_of(device) == nullptr)
        return CUDA_ERROR_INVALID_DEVICE;
    return function_of(kernel) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
    VGPU_ENTER(cuFuncGetName, Needs::Init);
    return name_of(name, function);
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction given) {
    VGPU_ENTER(cuFuncGetModule, Needs::Init);
    const auto function = function_of(given);
    if (module == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (function == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *module = reinterpret_cast<CUmodule>(function->image);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
    VGPU_ENTER(cuFuncGetParamInfo, Needs::Init);
    return parameter(function, index, offset, size);
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    VGPU_ENTER(cuKernelGetAttribute, Needs::Init);
    return devices().valid(device) ? get(value, attribute, kernel) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    VGPU_ENTER(cuKernelSetAttribute, Needs::Init);
    return devices().valid(device) ? set(attribute, value, kernel) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
    VGPU_ENTER(cuKernelGetName, Needs::Init);
    return name_of(name, kernel);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
    VGPU_ENTER(cuKernelGetParamInfo, Needs::Init);
    return parameter(kernel, index, offset, size);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block_size, size_t shared) {
    VGPU_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, Needs::Context);
    return occupancy(blocks, function, block_size, shared);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int block_size,
                                                              size_t shared, unsigned int) {
    VGPU_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, Needs::Context);
    return occupancy(blocks, function, block_size, shared);
}
