// Stream-ordered memory: cudaMallocAsync and memory pools.
#include "vgpu/cudart/runtime.hpp"

using namespace vgpu::cudart;

// A pool is the driver's own object, and so are the descriptions: only the names of the fields' types differ.
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));

VGPU_CUDART_API cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
    return api_on_stream("cudaMallocAsync", stream, [&]() -> cudaError_t {
        if (pointer == nullptr)
            return cudaErrorInvalidValue;
        CUdeviceptr address = 0;
        const CUresult result = cuMemAllocAsync(&address, bytes, stream);
        *pointer = host_view(address);
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                                    cudaStream_t stream) {
    return api_on_stream("cudaMallocFromPoolAsync", stream, [&]() -> cudaError_t {
        if (pointer == nullptr)
            return cudaErrorInvalidValue;
        CUdeviceptr address = 0;
        const CUresult result = cuMemAllocFromPoolAsync(&address, bytes, pool, stream);
        *pointer = host_view(address);
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
    return api_on_stream("cudaFreeAsync", stream, [&] { return cuMemFreeAsync(device_address(pointer), stream); });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    return api("cudaDeviceGetDefaultMemPool", Needs::kContext, [&] { return cuDeviceGetDefaultMemPool(pool, device); });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
    return api("cudaDeviceGetMemPool", Needs::kContext, [&] { return cuDeviceGetMemPool(pool, device); });
}

VGPU_CUDART_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    return api("cudaDeviceSetMemPool", Needs::kContext, [&] { return cuDeviceSetMemPool(device, pool); });
}

VGPU_CUDART_API cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
    return api("cudaMemPoolCreate", Needs::kContext, [&]() -> cudaError_t {
        if (pool == nullptr || properties == nullptr)
            return cudaErrorInvalidValue;
        CUmemPoolProps wanted{};
        wanted.allocType = static_cast<CUmemAllocationType>(properties->allocType);
        wanted.handleTypes = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
        wanted.location.type = static_cast<CUmemLocationType>(properties->location.type);
        wanted.location.id = properties->location.id;
        wanted.maxSize = properties->maxSize;
        return runtime_error(cuMemPoolCreate(pool, &wanted));
    });
}

VGPU_CUDART_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    return api("cudaMemPoolDestroy", Needs::kContext, [&] { return cuMemPoolDestroy(pool); });
}

VGPU_CUDART_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    return api("cudaMemPoolTrimTo", Needs::kContext, [&] { return cuMemPoolTrimTo(pool, keep); });
}

VGPU_CUDART_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    return api("cudaMemPoolSetAttribute", Needs::kContext,
               [&] { return cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); });
}

VGPU_CUDART_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    return api("cudaMemPoolGetAttribute", Needs::kContext,
               [&] { return cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); });
}

VGPU_CUDART_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
    return api("cudaMemPoolSetAccess", Needs::kContext,
               [&] { return cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(access), count); });
}

VGPU_CUDART_API cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                                 cudaMemLocation* location) {
    return api("cudaMemPoolGetAccess", Needs::kContext, [&] {
        return cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                                  reinterpret_cast<CUmemLocation*>(location));
    });
}
