// Two- and three-dimensional copies between linear memory. Arrays are not simulated: a copy that names one is not
// supported.
#include "vgpu/cuda/transfer.hpp"

using namespace vgpu::cuda;

namespace {

// One side of a copy descriptor, whichever struct it came in.
struct Plane {
    CUmemorytype type;
    const void* host;
    CUdeviceptr device;
    std::size_t x, y, z;
    std::size_t pitch;
    std::size_t height;
};

template <typename Descriptor>
Plane source_of(const Descriptor& d) {
    Plane plane{d.srcMemoryType, d.srcHost, d.srcDevice, d.srcXInBytes, d.srcY, 0, d.srcPitch, 0};
    if constexpr (requires { d.srcZ; }) {
        plane.z = d.srcZ;
        plane.height = d.srcHeight;
    }
    return plane;
}

template <typename Descriptor>
Plane target_of(const Descriptor& d) {
    Plane plane{d.dstMemoryType, d.dstHost, d.dstDevice, d.dstXInBytes, d.dstY, 0, d.dstPitch, 0};
    if constexpr (requires { d.dstZ; }) {
        plane.z = d.dstZ;
        plane.height = d.dstHeight;
    }
    return plane;
}

CUresult locate(const Plane& plane, const Box& box, std::size_t& pitch, std::size_t& slice, std::uintptr_t& begin,
                Expect& expect) {
    switch (plane.type) {
        case CU_MEMORYTYPE_HOST:
            begin = at(plane.host);
            expect = Expect::Host;
            break;
        case CU_MEMORYTYPE_DEVICE:
            begin = at(plane.device);
            expect = Expect::Device;
            break;
        case CU_MEMORYTYPE_UNIFIED:
            begin = at(plane.device);
            expect = Expect::Any;
            break;
        case CU_MEMORYTYPE_ARRAY:
            return CUDA_ERROR_NOT_SUPPORTED;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    pitch = plane.pitch == 0 ? box.width : plane.pitch;
    const std::size_t height = plane.height == 0 ? box.height : plane.height;
    // Rows of one box may not run into each other.
    if (pitch < box.width + plane.x || (box.depth > 1 && height < box.height + plane.y))
        return CUDA_ERROR_INVALID_VALUE;
    slice = pitch * height;
    begin += plane.z * slice + plane.y * pitch + plane.x;
    return CUDA_SUCCESS;
}

CUresult copy_planes(const Entry& entry, CUstream given, const Plane& target, const Plane& source, Box box,
                     bool synchronous) {
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (box.bytes() == 0)
        return CUDA_SUCCESS;
    std::uintptr_t to = 0;
    std::uintptr_t from = 0;
    Expect expect_to{};
    Expect expect_from{};
    if (const CUresult r = locate(target, box, box.target_pitch, box.target_slice, to, expect_to); r != CUDA_SUCCESS)
        return r;
    if (const CUresult r = locate(source, box, box.source_pitch, box.source_slice, from, expect_from);
        r != CUDA_SUCCESS)
        return r;
    Side target_side;
    Side source_side;
    if (!resolve(to, box.target_span(), expect_to, target_side) ||
        !resolve(from, box.source_span(), expect_from, source_side))
        return CUDA_ERROR_INVALID_VALUE;
    return transfer(entry, stream, target_side, source_side, box, synchronous);
}

template <typename Descriptor>
CUresult copy_descriptor(const Entry& entry, const Descriptor* d, CUstream stream, bool synchronous) {
    if (d == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    Box box;
    box.width = d->WidthInBytes;
    box.height = d->Height;
    if constexpr (requires { d->Depth; })
        box.depth = d->Depth;
    if constexpr (requires { d->srcContext; })
        if (context_of(d->srcContext) == nullptr || context_of(d->dstContext) == nullptr)
            return CUDA_ERROR_INVALID_CONTEXT;
    return copy_planes(entry, stream, target_of(*d), source_of(*d), box, synchronous);
}

}  // namespace

// A synchronous form for both default streams and an asynchronous one, for one descriptor type.
#define VGPU_BOX_COPY(family, exported, exported_ptds, Descriptor)       \
    CUresult exported(const Descriptor* copy) {                          \
        VGPU_ENTER(family, Needs::Context, Hang::Enqueues);              \
        return copy_descriptor(entry, copy, CU_STREAM_LEGACY, true);     \
    }                                                                    \
    CUresult exported_ptds(const Descriptor* copy) {                     \
        VGPU_ENTER(family, Needs::Context, Hang::Enqueues);              \
        return copy_descriptor(entry, copy, CU_STREAM_PER_THREAD, true); \
    }
#define VGPU_BOX_COPY_ASYNC(family, exported, exported_ptsz, Descriptor) \
    CUresult exported(const Descriptor* copy, CUstream stream) {         \
        VGPU_ENTER(family, Needs::Context, Hang::Enqueues);              \
        return copy_descriptor(entry, copy, stream, false);              \
    }                                                                    \
    CUresult exported_ptsz(const Descriptor* copy, CUstream stream) {    \
        return exported(copy, per_thread(stream));                       \
    }

VGPU_BOX_COPY(cuMemcpy2D, cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D)
VGPU_BOX_COPY(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D)
VGPU_BOX_COPY_ASYNC(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, CUDA_MEMCPY2D)
VGPU_BOX_COPY(cuMemcpy3D, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D)
VGPU_BOX_COPY_ASYNC(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, CUDA_MEMCPY3D)
VGPU_BOX_COPY(cuMemcpy3DPeer, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, CUDA_MEMCPY3D_PEER)
VGPU_BOX_COPY_ASYNC(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, CUDA_MEMCPY3D_PEER)
