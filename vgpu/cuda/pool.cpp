// cuMemAllocAsync and the pools that it allocates from.
#include "vgpu/cuda/pool.hpp"

#include <algorithm>
#include <deque>

#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

Registry<MemoryPool>& pool_handles() {
    static auto& all = *new Registry<MemoryPool>;
    return all;
}

CUmemoryPool pool_handle(MemoryPool* pool) {
    return reinterpret_cast<CUmemoryPool>(pool);
}

struct DevicePools {
    std::mutex lock;
    MemoryPool* initial = nullptr;  // never destroyed
    MemoryPool* current = nullptr;
};

DevicePools& pools_of(int device) {
    static auto& all = *new std::deque<DevicePools>(static_cast<std::size_t>(devices().count()));
    DevicePools& pools = all[static_cast<std::size_t>(device)];
    const std::lock_guard guard(pools.lock);
    if (pools.initial == nullptr) {
        auto pool = std::make_shared<MemoryPool>();
        pool->device = device;
        pools.initial = pools.current = pool_handles().add(std::move(pool));
    }
    return pools;
}

MemoryPool* current_pool(int device) {
    DevicePools& pools = pools_of(device);
    const std::lock_guard guard(pools.lock);
    return pools.current;
}

bool reserve(MemoryPool& pool, std::size_t bytes) {
    const std::lock_guard guard(pool.lock);
    if (pool.max_size != 0 && pool.used + bytes > pool.max_size)
        return false;
    pool.used += bytes;
    pool.used_high = std::max(pool.used_high, pool.used);
    return true;
}

CUresult allocate(const Entry& entry, CUdeviceptr* out, std::size_t bytes, MemoryPool* pool, CUstream given) {
    const auto stream = stream_of(entry, given);
    if (out == nullptr || pool == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::NoNode); result != CUDA_SUCCESS)
        return result;
    if (bytes == 0) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (!reserve(*pool, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    Allocation allocation;
    DeviceMemory& memory = *devices()[pool->device].memory;
    auto result = memory.allocate(bytes, allocation.block);
    if (result != DeviceMemory::Result::Ok && !entry.hang()) {
        // Memory that a cuMemFreeAsync queued on this stream will free can be reused by waiting for it, as the driver
        // does.
        stream->wait(stream->last());
        result = memory.allocate(bytes, allocation.block);
    }
    if (result != DeviceMemory::Result::Ok) {
        const std::lock_guard guard(pool->lock);
        pool->used -= bytes;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation.address = allocation.block.address;
    allocation.alias = allocation.block.alias;
    allocation.bytes = bytes;
    allocation.kind = MemoryKind::Pooled;
    allocation.device = pool->device;
    allocation.context = &stream->context();
    allocation.pool = pool;
    allocations().add(allocation);
    *out = allocation.address;
    const Logged logged(entry.name(), stream.get(),
                        Fields().add("bytes", bytes).address("address", allocation.address));
    logged.launch();
    stream->context().submit(stream, Work::Empty, logged.wrap([] {}), {}, entry.hang());
    return CUDA_SUCCESS;
}

bool valid(const CUmemPoolProps& properties) {
    return properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && devices().valid(properties.location.id);
}

}  // namespace

namespace vgpu::cuda {

void release_pooled(const Allocation& allocation) {
    {
        const std::lock_guard guard(allocation.pool->lock);
        allocation.pool->used -= allocation.bytes;
    }
    devices()[allocation.device].memory->free(allocation.block);
}

}  // namespace vgpu::cuda

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
    VGPU_ENTER(cuMemAllocAsync, Needs::Context, Hang::Enqueues);
    return allocate(entry, out, bytes, current_pool(entry.context().device().ordinal), stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t bytes, CUstream stream) {
    return cuMemAllocAsync(out, bytes, per_thread(stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
    VGPU_ENTER(cuMemAllocFromPoolAsync, Needs::Context, Hang::Enqueues);
    return allocate(entry, out, bytes, pool_handles().find(pool).get(), stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return cuMemAllocFromPoolAsync(out, bytes, pool, per_thread(stream));
}

// Look-ups no longer find the memory from now on, so that a later use is an error. Work queued before may still use it;
// it is reused when the stream reaches this point.
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream given) {
    VGPU_ENTER(cuMemFreeAsync, Needs::Context, Hang::Enqueues);
    const auto stream = stream_of(entry, given);
    const auto found = allocations().find(at(pointer));
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::NoNode); result != CUDA_SUCCESS)
        return result;
    if (!found || found->address != at(pointer) ||
        (found->kind != MemoryKind::Pooled && found->kind != MemoryKind::Device))
        return CUDA_ERROR_INVALID_VALUE;
    const auto removed = allocations().leave(at(pointer));
    if (!removed)
        return CUDA_ERROR_INVALID_VALUE;
    const Logged logged(entry.name(), stream.get(),
                        Fields().add("bytes", removed->bytes).address("address", removed->address));
    logged.launch();
    stream->context().submit(stream, Work::Empty, logged.wrap([allocation = *removed] {
        allocations().forget(allocation.address);
        release_allocation(allocation);
    }),
                             {}, entry.hang());
    return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    return cuMemFreeAsync(pointer, per_thread(stream));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
    VGPU_ENTER(cuDeviceGetDefaultMemPool, Needs::Init);
    if (pool == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = pool_handle(pools_of(device).initial);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
    VGPU_ENTER(cuDeviceGetMemPool, Needs::Init);
    if (pool == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = pool_handle(current_pool(device));
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool given) {
    VGPU_ENTER(cuDeviceSetMemPool, Needs::Init);
    const auto pool = pool_handles().find(given);
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (pool == nullptr || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    DevicePools& pools = pools_of(device);
    const std::lock_guard guard(pools.lock);
    pools.current = pool.get();
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
    VGPU_ENTER(cuMemPoolCreate, Needs::Init);
    if (out == nullptr || properties == nullptr || !valid(*properties))
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;  // CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES says so
    auto pool = std::make_shared<MemoryPool>();
    pool->device = properties->location.id;
    pool->max_size = properties->maxSize;
    *out = pool_handle(pool_handles().add(std::move(pool)));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool given) {
    VGPU_ENTER(cuMemPoolDestroy, Needs::Init);
    const auto pool = pool_handles().find(given);
    if (pool == nullptr || pools_of(pool->device).initial == pool.get())
        return CUDA_ERROR_INVALID_VALUE;
    DevicePools& pools = pools_of(pool->device);
    {
        const std::lock_guard guard(pools.lock);
        if (pools.current == pool.get())
            pools.current = pools.initial;
    }
    // Allocations outlive their pool's handle; the few bytes of the pool itself are kept for them.
    static auto& retired = *new std::deque<std::shared_ptr<MemoryPool>>;
    static auto& lock = *new std::mutex;
    const std::lock_guard guard(lock);
    retired.push_back(pool_handles().remove(given));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
    VGPU_ENTER(cuMemPoolTrimTo, Needs::Init);
    return pool_handles().find(pool) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool given, CUmemPool_attribute attribute, void* value) {
    VGPU_ENTER(cuMemPoolGetAttribute, Needs::Init);
    const auto pool = pool_handles().find(given);
    if (pool == nullptr || value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard guard(pool->lock);
    auto* const number = static_cast<cuuint64_t*>(value);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
            *static_cast<int*>(value) = pool->reuse[0];
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
            *static_cast<int*>(value) = pool->reuse[1];
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            *static_cast<int*>(value) = pool->reuse[2];
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            *number = pool->release_threshold;
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
            *number = pool->used;
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            *number = pool->used_high;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool given, CUmemPool_attribute attribute, void* value) {
    VGPU_ENTER(cuMemPoolSetAttribute, Needs::Init);
    const auto pool = pool_handles().find(given);
    if (pool == nullptr || value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard guard(pool->lock);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
            pool->reuse[0] = *static_cast<int*>(value);
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
            pool->reuse[1] = *static_cast<int*>(value);
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            pool->reuse[2] = *static_cast<int*>(value);
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            pool->release_threshold = *static_cast<cuuint64_t*>(value);
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            if (*static_cast<cuuint64_t*>(value) != 0)
                return CUDA_ERROR_INVALID_VALUE;
            pool->used_high = pool->used;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAccess(CUmemoryPool given, const CUmemAccessDesc* access, size_t count) {
    VGPU_ENTER(cuMemPoolSetAccess, Needs::Init);
    const auto pool = pool_handles().find(given);
    if (pool == nullptr || (count != 0 && access == nullptr))
        return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
        const int device = access[i].location.id;
        const bool refused = device == pool->device && access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !devices().valid(device) || refused)
            return CUDA_ERROR_INVALID_VALUE;
    }
    const std::lock_guard guard(pool->lock);
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bit = std::uint64_t{1} << access[i].location.id;
        const bool granted = access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        pool->accessible_from = granted ? pool->accessible_from | bit : pool->accessible_from & ~bit;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool given, CUmemLocation* location) {
    VGPU_ENTER(cuMemPoolGetAccess, Needs::Init);
    const auto pool = pool_handles().find(given);
    if (flags == nullptr || location == nullptr || pool == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !devices().valid(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = reaches(*pool, location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
