// Memory: device, pinned host, registered host, managed; and what a pointer is.
#include "vgpu/cudart/allocation.hpp"

using namespace vgpu::cudart;

namespace {

CUmemLocation driver_location(cudaMemLocation location) {
    CUmemLocation to{};
    to.type = static_cast<CUmemLocationType>(location.type);  // the same numbers
    to.id = location.id;
    return to;
}

// The runtime answers a request for no bytes with a null pointer and success, which the driver refuses.
template <class Allocate>
cudaError_t allocate(const char* function, void** pointer, size_t bytes, Allocate&& from_driver) {
    return api(function, Needs::kContext, [&]() -> cudaError_t {
        if (pointer == nullptr)
            return cudaErrorInvalidValue;
        *pointer = nullptr;
        return bytes == 0 ? cudaSuccess : runtime_error(from_driver());
    });
}

cudaError_t allocate_host(const char* function, void** pointer, size_t bytes, unsigned flags) {
    return allocate(function, pointer, bytes, [&] { return cuMemHostAlloc(pointer, bytes, flags); });
}

cudaMemoryType memory_type(unsigned driver_type, bool managed) {
    if (managed)
        return cudaMemoryTypeManaged;
    return driver_type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

}  // namespace

namespace vgpu::cudart {

cudaError_t find_pointer(PointerFacts& facts, const void* pointer) {
    unsigned type = 0;
    unsigned managed = 0;
    int ordinal = 0;
    CUdeviceptr device = 0;
    void* host = nullptr;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                    CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* answers[] = {&type, &managed, &ordinal, &device, &host};
    // For a pointer that it does not know the driver answers with zeros and success.
    if (const CUresult result = cuPointerGetAttributes(5, wanted, answers, device_address(pointer));
        result != CUDA_SUCCESS)
        return runtime_error(result);
    if (type == 0)
        facts.host_pointer = const_cast<void*>(pointer);
    else
        facts = {memory_type(type, managed != 0), ordinal, host_view(device), host};
    return cudaSuccess;
}

cudaError_t prefetch(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags, cudaStream_t stream) {
    return api_on_stream("cudaMemPrefetchAsync", stream, [&] {
        return cuMemPrefetchAsync_v2(device_address(pointer), bytes, driver_location(location), flags, stream);
    });
}

cudaError_t advise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
    return api("cudaMemAdvise", Needs::kContext, [&] {
        return cuMemAdvise_v2(device_address(pointer), bytes, static_cast<CUmem_advise>(advice),
                              driver_location(location));
    });
}

}  // namespace vgpu::cudart

VGPU_CUDART_API cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    return allocate("cudaMalloc", pointer, bytes, [&] {
        CUdeviceptr address = 0;
        const CUresult result = cuMemAlloc(&address, bytes);
        *pointer = host_view(address);
        return result;
    });
}

// cudaFree(0) is how many programs make the context. Memory that a reset has freed is no error to a thread that has
// made no call since (runtime 13.0 with driver 580).
VGPU_CUDART_API cudaError_t cudaFree(void* pointer) {
    const bool reset = pointer != nullptr && was_reset();
    return api("cudaFree", Needs::kContext, [&] {
        const CUresult result = pointer == nullptr ? CUDA_SUCCESS : cuMemFree(device_address(pointer));
        return reset && result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
    });
}

VGPU_CUDART_API cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
    return allocate("cudaMallocPitch", pointer, width * height, [&] {
        CUdeviceptr address = 0;
        constexpr unsigned kElementBytes = 4;  // a coalescing hint; the pitch does not depend on it
        const CUresult result = cuMemAllocPitch(&address, pitch, width, height, kElementBytes);
        *pointer = host_view(address);
        return result;
    });
}

VGPU_CUDART_API cudaError_t cudaMalloc3D(cudaPitchedPtr* to, cudaExtent extent) {
    return api("cudaMalloc3D", Needs::kContext, [&]() -> cudaError_t {
        if (to == nullptr)
            return cudaErrorInvalidValue;
        *to = {nullptr, 0, extent.width, extent.height};
        if (extent.width == 0 || extent.height == 0 || extent.depth == 0)
            return cudaSuccess;
        CUdeviceptr address = 0;
        const CUresult result = cuMemAllocPitch(&address, &to->pitch, extent.width, extent.height * extent.depth, 4);
        to->ptr = host_view(address);
        return runtime_error(result);
    });
}

// Every pinned allocation is portable and mapped under unified addressing; the flags only record what was asked.
VGPU_CUDART_API cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
    return allocate_host("cudaMallocHost", pointer, bytes, cudaHostAllocDefault);
}

VGPU_CUDART_API cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
    return allocate_host("cudaHostAlloc", pointer, bytes, flags);
}

VGPU_CUDART_API cudaError_t cudaFreeHost(void* pointer) {
    return api("cudaFreeHost", Needs::kContext,
               [&] { return pointer == nullptr ? CUDA_SUCCESS : cuMemFreeHost(pointer); });
}

VGPU_CUDART_API cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
    return api("cudaHostRegister", Needs::kContext, [&] { return cuMemHostRegister(pointer, bytes, flags); });
}

VGPU_CUDART_API cudaError_t cudaHostUnregister(void* pointer) {
    return api("cudaHostUnregister", Needs::kContext, [&] { return cuMemHostUnregister(pointer); });
}

VGPU_CUDART_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
    return api("cudaHostGetDevicePointer", Needs::kContext, [&] {
        CUdeviceptr address = 0;
        const CUresult result =
            device == nullptr ? CUDA_ERROR_INVALID_VALUE : cuMemHostGetDevicePointer(&address, host, flags);
        if (device != nullptr)
            *device = host_view(address);
        return result;
    });
}

VGPU_CUDART_API cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
    return api("cudaHostGetFlags", Needs::kContext, [&] { return cuMemHostGetFlags(flags, pointer); });
}

VGPU_CUDART_API cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
    return allocate("cudaMallocManaged", pointer, bytes, [&] {
        CUdeviceptr address = 0;
        const CUresult result = cuMemAllocManaged(&address, bytes, flags);
        *pointer = host_view(address);
        return result;
    });
}

VGPU_CUDART_API cudaError_t cudaMemRangeGetAttribute(void* data, size_t size, cudaMemRangeAttribute attribute,
                                                     const void* pointer, size_t bytes) {
    return api("cudaMemRangeGetAttribute", Needs::kContext, [&] {
        return cuMemRangeGetAttribute(data, size, static_cast<CUmem_range_attribute>(attribute),
                                      device_address(pointer), bytes);
    });
}
