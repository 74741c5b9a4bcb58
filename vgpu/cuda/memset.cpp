// cuMemset*: one- and two-dimensional, of 1-, 2- and 4-byte values.
#include <cstring>

#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/transfer.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

struct Fill {
    std::uintptr_t begin;
    std::size_t pitch;
    unsigned value;
    std::size_t element;  // bytes
    std::size_t width;    // elements
    std::size_t height;
};

void perform(char* begin, const Fill& fill) {
    for (std::size_t y = 0; y < fill.height; ++y) {
        char* row = begin + y * fill.pitch;
        if (fill.element == 1) {
            std::memset(row, static_cast<int>(fill.value), fill.width);
            continue;
        }
        for (std::size_t x = 0; x < fill.width; ++x)
            std::memcpy(row + x * fill.element, &fill.value, fill.element);  // little-endian: the low bytes come first
    }
}

// The synchronous functions too return at once for device memory; for pinned and managed memory they wait.
CUresult set(const Entry& entry, const Fill& fill, CUstream given, bool synchronous) {
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    const std::size_t row = fill.width * fill.element;
    if (row == 0 || fill.height == 0)
        return CUDA_SUCCESS;
    Side side;
    const bool aligned =
        fill.begin % fill.element == 0 && (fill.height == 1 || (fill.pitch >= row && fill.pitch % fill.element == 0));
    if (!aligned || !resolve(fill.begin, (fill.height - 1) * fill.pitch + row, Expect::Device, side))
        return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = admit(stream, synchronous ? Use::NoNode : Use::Node); result != CUDA_SUCCESS)
        return result;
    const Logged logged(entry.name(), stream.get(), Fields().add("bytes", row * fill.height));
    logged.launch();
    const auto run = [begin = side.at, fill] { perform(begin, fill); };
    const bool sync_memops = side.sync_memops || (stream->context().flags & CU_CTX_SYNC_MEMOPS) != 0;
    if (synchronous && (side.where != Where::Device || sync_memops))
        stream->context().run(stream, logged.wrap(run), entry.hang());
    else
        stream->context().submit(stream, Work::Fill,
                                 logged.wrap([run, counted = synchronous ? count_memop(side) : nullptr] { run(); }), {},
                                 entry.hang());
    return CUDA_SUCCESS;
}

}  // namespace

#define VGPU_MEMSET(bits, Value)                                                                                   \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr to, Value value, size_t count) {                                     \
        VGPU_ENTER(cuMemsetD##bits, Needs::Context, Hang::Enqueues);                                               \
        return set(entry, {at(to), 0, value, sizeof(Value), count, 1}, CU_STREAM_LEGACY, true);                    \
    }                                                                                                              \
    CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, Value value, size_t count) {                                \
        VGPU_ENTER(cuMemsetD##bits, Needs::Context, Hang::Enqueues);                                               \
        return set(entry, {at(to), 0, value, sizeof(Value), count, 1}, CU_STREAM_PER_THREAD, true);                \
    }                                                                                                              \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, Value value, size_t count, CUstream stream) {                  \
        VGPU_ENTER(cuMemsetD##bits##Async, Needs::Context, Hang::Enqueues);                                        \
        return set(entry, {at(to), 0, value, sizeof(Value), count, 1}, stream, false);                             \
    }                                                                                                              \
    CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, Value value, size_t count, CUstream stream) {             \
        return cuMemsetD##bits##Async(to, value, count, per_thread(stream));                                       \
    }                                                                                                              \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height) {      \
        VGPU_ENTER(cuMemsetD2D##bits, Needs::Context, Hang::Enqueues);                                             \
        return set(entry, {at(to), pitch, value, sizeof(Value), width, height}, CU_STREAM_LEGACY, true);           \
    }                                                                                                              \
    CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height) { \
        VGPU_ENTER(cuMemsetD2D##bits, Needs::Context, Hang::Enqueues);                                             \
        return set(entry, {at(to), pitch, value, sizeof(Value), width, height}, CU_STREAM_PER_THREAD, true);       \
    }                                                                                                              \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height,      \
                                      CUstream stream) {                                                           \
        VGPU_ENTER(cuMemsetD2D##bits##Async, Needs::Context, Hang::Enqueues);                                      \
        return set(entry, {at(to), pitch, value, sizeof(Value), width, height}, stream, false);                    \
    }                                                                                                              \
    CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height, \
                                           CUstream stream) {                                                      \
        return cuMemsetD2D##bits##Async(to, pitch, value, width, height, per_thread(stream));                      \
    }

VGPU_MEMSET(8, unsigned char)
VGPU_MEMSET(16, unsigned short)
VGPU_MEMSET(32, unsigned int)
