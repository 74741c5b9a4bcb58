// Copies and fills of two and three dimensions, and copies between devices. Linear memory only: there are no arrays.
#include <initializer_list>

#include "vgpu/cudart/copy.hpp"

using namespace vgpu::cudart;

namespace {

cudaError_t describe_2d(CUDA_MEMCPY2D& copy, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                        size_t width, size_t height, cudaMemcpyKind kind) {
    CopyEnds ends;
    if (!ends_of(kind, ends))
        return cudaErrorInvalidMemcpyDirection;
    if (height > 1 && (to_pitch < width || from_pitch < width))
        return cudaErrorInvalidPitchValue;
    copy = {};
    copy.srcMemoryType = ends.from;
    copy.srcHost = from;
    copy.srcDevice = device_address(from);
    copy.srcPitch = from_pitch;
    copy.dstMemoryType = ends.to;
    copy.dstHost = to;
    copy.dstDevice = device_address(to);
    copy.dstPitch = to_pitch;
    copy.WidthInBytes = width;
    copy.Height = height;
    return cudaSuccess;
}

// The fields that the driver's two descriptions of a copy in three dimensions share, from the runtime's two.
template <class Driver, class Parameters>
cudaError_t describe_3d(Driver& copy, const Parameters& from, CopyEnds ends) {
    if (from.srcArray != nullptr || from.dstArray != nullptr)
        return cudaErrorNotSupported;
    if (from.extent.height > 1 && (from.srcPtr.pitch < from.extent.width || from.dstPtr.pitch < from.extent.width))
        return cudaErrorInvalidPitchValue;
    copy = {};
    copy.srcXInBytes = from.srcPos.x;
    copy.srcY = from.srcPos.y;
    copy.srcZ = from.srcPos.z;
    copy.srcMemoryType = ends.from;
    copy.srcHost = from.srcPtr.ptr;
    copy.srcDevice = device_address(from.srcPtr.ptr);
    copy.srcPitch = from.srcPtr.pitch;
    copy.srcHeight = from.srcPtr.ysize;
    copy.dstXInBytes = from.dstPos.x;
    copy.dstY = from.dstPos.y;
    copy.dstZ = from.dstPos.z;
    copy.dstMemoryType = ends.to;
    copy.dstHost = from.dstPtr.ptr;
    copy.dstDevice = device_address(from.dstPtr.ptr);
    copy.dstPitch = from.dstPtr.pitch;
    copy.dstHeight = from.dstPtr.ysize;
    copy.WidthInBytes = from.extent.width;
    copy.Height = from.extent.height;
    copy.Depth = from.extent.depth;
    return cudaSuccess;
}

template <class Launch>
cudaError_t copy_3d(const cudaMemcpy3DParms* parameters, Launch&& launch) {
    CopyEnds ends;
    if (parameters == nullptr)
        return cudaErrorInvalidValue;
    if (!ends_of(parameters->kind, ends))
        return cudaErrorInvalidMemcpyDirection;
    CUDA_MEMCPY3D copy;
    const cudaError_t result = describe_3d(copy, *parameters, ends);
    return result != cudaSuccess ? result : runtime_error(launch(&copy));
}

template <class Launch>
cudaError_t copy_3d_peer(const cudaMemcpy3DPeerParms* parameters, Launch&& launch) {
    if (parameters == nullptr)
        return cudaErrorInvalidValue;
    CUDA_MEMCPY3D_PEER copy;
    if (const cudaError_t result = describe_3d(copy, *parameters, {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE});
        result != cudaSuccess)
        return result;
    if (const cudaError_t result = primary_context(parameters->srcDevice, copy.srcContext); result != cudaSuccess)
        return result;
    if (const cudaError_t result = primary_context(parameters->dstDevice, copy.dstContext); result != cudaSuccess)
        return result;
    return runtime_error(launch(&copy));
}

template <class Launch>
cudaError_t copy_peer(int to_device, int from_device, size_t bytes, Launch&& launch) {
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    for (const int device : {to_device, from_device})
        if (const cudaError_t valid = check_device(device); valid != cudaSuccess)
            return valid;
    if (const cudaError_t result = primary_context(to_device, to); result != cudaSuccess)
        return result;
    if (const cudaError_t result = primary_context(from_device, from); result != cudaSuccess)
        return result;
    return bytes == 0 ? cudaSuccess : runtime_error(launch(to, from));
}

// Slice by slice: the driver fills two dimensions.
template <class Fill>
cudaError_t fill_3d(cudaPitchedPtr to, cudaExtent extent, Fill&& fill) {
    if (extent.width == 0 || extent.height == 0 || extent.depth == 0)
        return cudaSuccess;
    if (extent.width > to.pitch || (extent.depth > 1 && extent.height > to.ysize))
        return cudaErrorInvalidValue;
    for (size_t slice = 0; slice < extent.depth; ++slice) {
        const CUdeviceptr start = device_address(to.ptr) + slice * to.pitch * to.ysize;
        if (const CUresult result = fill(start); result != CUDA_SUCCESS)
            return runtime_error(result);
    }
    return cudaSuccess;
}

}  // namespace

VGPU_CUDART_API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                         size_t height, cudaMemcpyKind kind) {
    return api("cudaMemcpy2D", Needs::kContext, [&] {
        CUDA_MEMCPY2D copy;
        const cudaError_t result = describe_2d(copy, to, to_pitch, from, from_pitch, width, height, kind);
        if (result != cudaSuccess || width == 0 || height == 0)
            return result;
        return runtime_error(cuMemcpy2DUnaligned(&copy));
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return api_on_stream("cudaMemcpy2DAsync", stream, [&] {
        CUDA_MEMCPY2D copy;
        const cudaError_t result = describe_2d(copy, to, to_pitch, from, from_pitch, width, height, kind);
        if (result != cudaSuccess || width == 0 || height == 0)
            return result;
        return runtime_error(cuMemcpy2DAsync(&copy, stream));
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
    return api("cudaMemcpy3D", Needs::kContext, [&] { return copy_3d(parameters, cuMemcpy3D); });
}

VGPU_CUDART_API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
    return api_on_stream("cudaMemcpy3DAsync", stream, [&] {
        return copy_3d(parameters, [&](const CUDA_MEMCPY3D* copy) { return cuMemcpy3DAsync(copy, stream); });
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* parameters) {
    return api("cudaMemcpy3DPeer", Needs::kContext, [&] { return copy_3d_peer(parameters, cuMemcpy3DPeer); });
}

VGPU_CUDART_API cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream) {
    return api_on_stream("cudaMemcpy3DPeerAsync", stream, [&] {
        return copy_3d_peer(parameters,
                            [&](const CUDA_MEMCPY3D_PEER* copy) { return cuMemcpy3DPeerAsync(copy, stream); });
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
    return api("cudaMemcpyPeer", Needs::kContext, [&] {
        return copy_peer(to_device, from_device, bytes, [&](CUcontext to_context, CUcontext from_context) {
            return cuMemcpyPeer(device_address(to), to_context, device_address(from), from_context, bytes);
        });
    });
}

VGPU_CUDART_API cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                                size_t bytes, cudaStream_t stream) {
    return api_on_stream("cudaMemcpyPeerAsync", stream, [&] {
        return copy_peer(to_device, from_device, bytes, [&](CUcontext to_context, CUcontext from_context) {
            return cuMemcpyPeerAsync(device_address(to), to_context, device_address(from), from_context, bytes, stream);
        });
    });
}

VGPU_CUDART_API cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
    return api("cudaMemset2D", Needs::kContext, [&] {
        if (width == 0 || height == 0)
            return CUDA_SUCCESS;
        return cuMemsetD2D8(device_address(to), pitch, static_cast<unsigned char>(value), width, height);
    });
}

VGPU_CUDART_API cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                                              cudaStream_t stream) {
    return api_on_stream("cudaMemset2DAsync", stream, [&] {
        if (width == 0 || height == 0)
            return CUDA_SUCCESS;
        return cuMemsetD2D8Async(device_address(to), pitch, static_cast<unsigned char>(value), width, height, stream);
    });
}

VGPU_CUDART_API cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
    return api("cudaMemset3D", Needs::kContext, [&] {
        return fill_3d(to, extent, [&](CUdeviceptr start) {
            return cuMemsetD2D8(start, to.pitch, static_cast<unsigned char>(value), extent.width, extent.height);
        });
    });
}

VGPU_CUDART_API cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
    return api_on_stream("cudaMemset3DAsync", stream, [&] {
        return fill_3d(to, extent, [&](CUdeviceptr start) {
            return cuMemsetD2D8Async(start, to.pitch, static_cast<unsigned char>(value), extent.width, extent.height,
                                     stream);
        });
    });
}
