// Contiguous copies and fills.
#include "vgpu/cudart/copy.hpp"

#include <cstring>

namespace vgpu::cudart {

bool ends_of(cudaMemcpyKind kind, CopyEnds& ends) {
    switch (kind) {
        case cudaMemcpyHostToHost:
            ends = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
            return true;
        case cudaMemcpyHostToDevice:
            ends = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
            return true;
        case cudaMemcpyDeviceToHost:
            ends = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
            return true;
        case cudaMemcpyDeviceToDevice:
            ends = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
            return true;
        case cudaMemcpyDefault:
            ends = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
            return true;
    }
    return false;
}

cudaError_t copy_now(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    CopyEnds ends;
    if (!ends_of(kind, ends))
        return cudaErrorInvalidMemcpyDirection;
    if (bytes == 0)
        return cudaSuccess;
    switch (kind) {
        case cudaMemcpyHostToDevice:
            return runtime_error(cuMemcpyHtoD(device_address(to), from, bytes));
        case cudaMemcpyDeviceToHost:
            return runtime_error(cuMemcpyDtoH(to, device_address(from), bytes));
        case cudaMemcpyDeviceToDevice:
            return runtime_error(cuMemcpyDtoD(device_address(to), device_address(from), bytes));
        default:
            return runtime_error(cuMemcpy(device_address(to), device_address(from), bytes));
    }
}

cudaError_t copy_on(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    CopyEnds ends;
    if (!ends_of(kind, ends))
        return cudaErrorInvalidMemcpyDirection;
    if (bytes == 0)
        return cudaSuccess;
    switch (kind) {
        case cudaMemcpyHostToDevice:
            return runtime_error(cuMemcpyHtoDAsync(device_address(to), from, bytes, stream));
        case cudaMemcpyDeviceToHost:
            return runtime_error(cuMemcpyDtoHAsync(to, device_address(from), bytes, stream));
        case cudaMemcpyDeviceToDevice:
            return runtime_error(cuMemcpyDtoDAsync(device_address(to), device_address(from), bytes, stream));
        default:
            return runtime_error(cuMemcpyAsync(device_address(to), device_address(from), bytes, stream));
    }
}

cudaError_t copy_batch(void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes,
                       size_t* starts, size_t attributes_count, cudaStream_t stream) {
    return api_on_stream("cudaMemcpyBatchAsync", stream, [&] {
        static_assert(sizeof(CUdeviceptr) == sizeof(void*));
        auto* const targets = reinterpret_cast<CUdeviceptr*>(const_cast<void**>(to));
        auto* const sources = reinterpret_cast<CUdeviceptr*>(const_cast<const void**>(from));
        return cuMemcpyBatchAsync_v2(targets, sources, const_cast<size_t*>(bytes), count,
                                     static_cast<CUmemcpyAttributes*>(attributes), starts, attributes_count, stream);
    });
}

}  // namespace vgpu::cudart

using namespace vgpu::cudart;

VGPU_CUDART_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return api("cudaMemcpy", Needs::kContext, [&] { return copy_now(to, from, bytes, kind); });
}

VGPU_CUDART_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                            cudaStream_t stream) {
    return api_on_stream("cudaMemcpyAsync", stream, [&] { return copy_on(to, from, bytes, kind, stream); });
}

VGPU_CUDART_API cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    return api("cudaMemset", Needs::kContext, [&] {
        return bytes == 0 ? CUDA_SUCCESS : cuMemsetD8(device_address(to), static_cast<unsigned char>(value), bytes);
    });
}

VGPU_CUDART_API cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    return api_on_stream("cudaMemsetAsync", stream, [&] {
        return bytes == 0 ? CUDA_SUCCESS
                          : cuMemsetD8Async(device_address(to), static_cast<unsigned char>(value), bytes, stream);
    });
}
