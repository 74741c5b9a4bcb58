// Contiguous copies. The _ptds and _ptsz variants take stream 0 as the calling thread's own.
#include "vgpu/core/context.hpp"
#include "vgpu/cuda/transfer.hpp"

using namespace vgpu::cuda;

namespace {

constexpr bool kSynchronous = true;
constexpr bool kAsynchronous = false;

CUresult host_to_device(const Entry& entry, CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream,
                        bool synchronous) {
    return copy(entry, stream, at(to), Expect::Device, at(from), Expect::Host, bytes, synchronous);
}

CUresult device_to_host(const Entry& entry, void* to, CUdeviceptr from, std::size_t bytes, CUstream stream,
                        bool synchronous) {
    // With unified addresses the target may be the device's too, as driver 580 has it.
    return copy(entry, stream, at(to), Expect::Any, at(from), Expect::Device, bytes, synchronous);
}

CUresult device_to_device(const Entry& entry, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream,
                          bool synchronous) {
    return copy(entry, stream, at(to), Expect::Device, at(from), Expect::Device, bytes, synchronous);
}

CUresult any_to_any(const Entry& entry, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream,
                    bool synchronous) {
    return copy(entry, stream, at(to), Expect::Any, at(from), Expect::Any, bytes, synchronous);
}

CUresult peer_to_peer(const Entry& entry, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, std::size_t bytes, CUstream stream, bool synchronous) {
    vgpu::Context* const ends[] = {context_of(to_context), context_of(from_context)};
    if (ends[0] == nullptr || ends[1] == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    // The synchronous form is serialised with what both devices have pending (CUDA runtime API, cudaMemcpyPeer), also
    // with a host copy whose last part is still in flight there.
    if (synchronous)
        for (vgpu::Context* end : ends)
            end->synchronize();
    return device_to_device(entry, to, from, bytes, stream, synchronous);
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    VGPU_ENTER(cuMemcpy, Needs::Context, Hang::Enqueues);
    return any_to_any(entry, to, from, bytes, CU_STREAM_LEGACY, kSynchronous);
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    VGPU_ENTER(cuMemcpy, Needs::Context, Hang::Enqueues);
    return any_to_any(entry, to, from, bytes, CU_STREAM_PER_THREAD, kSynchronous);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    VGPU_ENTER(cuMemcpyAsync, Needs::Context, Hang::Enqueues);
    return any_to_any(entry, to, from, bytes, stream, kAsynchronous);
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return cuMemcpyAsync(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
    VGPU_ENTER(cuMemcpyHtoD, Needs::Context, Hang::Enqueues);
    return host_to_device(entry, to, from, bytes, CU_STREAM_LEGACY, kSynchronous);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
    VGPU_ENTER(cuMemcpyHtoD, Needs::Context, Hang::Enqueues);
    return host_to_device(entry, to, from, bytes, CU_STREAM_PER_THREAD, kSynchronous);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    VGPU_ENTER(cuMemcpyHtoDAsync, Needs::Context, Hang::Enqueues);
    return host_to_device(entry, to, from, bytes, stream, kAsynchronous);
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    return cuMemcpyHtoDAsync_v2(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
    VGPU_ENTER(cuMemcpyDtoH, Needs::Context, Hang::Enqueues);
    return device_to_host(entry, to, from, bytes, CU_STREAM_LEGACY, kSynchronous);
}

CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
    VGPU_ENTER(cuMemcpyDtoH, Needs::Context, Hang::Enqueues);
    return device_to_host(entry, to, from, bytes, CU_STREAM_PER_THREAD, kSynchronous);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    VGPU_ENTER(cuMemcpyDtoHAsync, Needs::Context, Hang::Enqueues);
    return device_to_host(entry, to, from, bytes, stream, kAsynchronous);
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return cuMemcpyDtoHAsync_v2(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    VGPU_ENTER(cuMemcpyDtoD, Needs::Context, Hang::Enqueues);
    return device_to_device(entry, to, from, bytes, CU_STREAM_LEGACY, kSynchronous);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    VGPU_ENTER(cuMemcpyDtoD, Needs::Context, Hang::Enqueues);
    return device_to_device(entry, to, from, bytes, CU_STREAM_PER_THREAD, kSynchronous);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    VGPU_ENTER(cuMemcpyDtoDAsync, Needs::Context, Hang::Enqueues);
    return device_to_device(entry, to, from, bytes, stream, kAsynchronous);
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return cuMemcpyDtoDAsync_v2(to, from, bytes, per_thread(stream));
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    VGPU_ENTER(cuMemcpyPeer, Needs::Context, Hang::Enqueues);
    return peer_to_peer(entry, to, to_context, from, from_context, bytes, CU_STREAM_LEGACY, kSynchronous);
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes) {
    VGPU_ENTER(cuMemcpyPeer, Needs::Context, Hang::Enqueues);
    return peer_to_peer(entry, to, to_context, from, from_context, bytes, CU_STREAM_PER_THREAD, kSynchronous);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
    VGPU_ENTER(cuMemcpyPeerAsync, Needs::Context, Hang::Enqueues);
    return peer_to_peer(entry, to, to_context, from, from_context, bytes, stream, kAsynchronous);
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                size_t bytes, CUstream stream) {
    return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, per_thread(stream));
}
