// Limits and cache preferences of a context: stored and returned; the sizes of stack and heap count for kernels that
// the engine runs.
#include <array>
#include <map>
#include <mutex>

#include "vgpu/cuda/device_code.hpp"
#include "vgpu/cuda/device_heap.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

struct Limit {
    CUlimit name;
    std::size_t initial;
};

constexpr Limit kLimits[] = {
    {CU_LIMIT_STACK_SIZE, 1024},
    {CU_LIMIT_PRINTF_FIFO_SIZE, 7u << 20},
    {CU_LIMIT_MALLOC_HEAP_SIZE, 8u << 20},
    {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
    {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
    {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
};

struct Chosen {
    std::mutex lock;
    std::map<std::pair<std::uint64_t, CUlimit>, std::size_t> limits;
    std::map<std::uint64_t, CUfunc_cache> caches;
};

Chosen& chosen() {
    static auto& all = *new Chosen;
    return all;
}

const Limit* known(CUlimit limit) {
    for (const Limit& row : kLimits)
        if (row.name == limit)
            return &row;
    return nullptr;
}

}  // namespace

namespace vgpu::cuda {

std::size_t limit_of(const Context& context, CUlimit limit) {
    const std::lock_guard guard(chosen().lock);
    const auto set = chosen().limits.find({context.id(), limit});
    return set == chosen().limits.end() ? known(limit)->initial : set->second;
}

}  // namespace vgpu::cuda

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    VGPU_ENTER(cuCtxSetLimit, Needs::Context);
    if (known(limit) == nullptr)
        return limit >= CU_LIMIT_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && has_device_heap(entry.context()))
        return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard guard(chosen().lock);
    chosen().limits[{entry.context().id(), limit}] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
    VGPU_ENTER(cuCtxGetLimit, Needs::Context);
    if (value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (known(limit) == nullptr)
        return limit >= CU_LIMIT_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = limit_of(entry.context(), limit);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* preference) {
    VGPU_ENTER(cuCtxGetCacheConfig, Needs::Context);
    if (preference == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard guard(chosen().lock);
    *preference = chosen().caches[entry.context().id()];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache preference) {
    VGPU_ENTER(cuCtxSetCacheConfig, Needs::Context);
    if (preference < CU_FUNC_CACHE_PREFER_NONE || preference > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard guard(chosen().lock);
    chosen().caches[entry.context().id()] = preference;
    return CUDA_SUCCESS;
}
