// cuMemcpyBatchAsync: several contiguous copies in one call, in a stream's order as a whole and in none among
// themselves.
#include <span>

#include "vgpu/cuda/transfer.hpp"

using namespace vgpu::cuda;

#pragma GCC visibility push(default)
extern "C" {
CUresult cuMemcpyBatchAsync(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, size_t*,
                            CUstream);
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t,
                                 size_t*, CUstream);
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t,
                                    CUstream);
}
#pragma GCC visibility pop

namespace {

constexpr std::size_t kNoneFailed = static_cast<std::size_t>(-1);

struct Batch {
    std::span<const CUdeviceptr> targets, sources;
    std::span<const std::size_t> sizes;
    std::span<const CUmemcpyAttributes> attributes;
    std::span<const std::size_t> starts;  // of the copies that each of the attributes is for

    bool valid() const {
        if (sizes.empty() || attributes.empty() || attributes.size() > sizes.size() || starts[0] != 0)
            return false;
        for (std::size_t k = 1; k < starts.size(); ++k)
            if (starts[k] <= starts[k - 1] || starts[k] >= sizes.size())
                return false;
        for (const CUmemcpyAttributes& one : attributes)
            if (one.srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
                one.srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
                one.srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
                return false;
        return true;
    }
    const CUmemcpyAttributes& attributes_of(std::size_t copy) const {
        std::size_t k = starts.size() - 1;
        while (starts[k] > copy)
            --k;
        return attributes[k];
    }
};

// What comes before a copy that is not valid is made, as by driver 580; `failed` says which it is.
CUresult copy_all(const Entry& entry, const Batch& batch, CUstream given, std::size_t& failed) {
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    bool wait = false;
    for (std::size_t i = 0; i < batch.sizes.size(); ++i) {
        Side to, from;
        Box box;
        box.width = batch.sizes[i];
        if (box.width == 0)
            continue;
        if (!resolve(at(batch.targets[i]), batch.sizes[i], Expect::Any, to) ||
            !resolve(at(batch.sources[i]), batch.sizes[i], Expect::Any, from)) {
            failed = i;
            return CUDA_ERROR_INVALID_VALUE;
        }
        // Such a source is the program's again when the call returns: one that the copy reads where it lies makes the
        // call wait for the stream (driver 580).
        const auto order = batch.attributes_of(i).srcAccessOrder;
        wait = wait || (order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && from.where != Where::Pageable);
        if (const CUresult result = transfer(entry, stream, to, from, box, false); result != CUDA_SUCCESS)
            return result;
    }
    if (wait)
        stream->wait(stream->last());
    return CUDA_SUCCESS;
}

CUresult copy_batch(const Entry& entry, CUdeviceptr* targets, CUdeviceptr* sources, std::size_t* sizes,
                    std::size_t count, CUmemcpyAttributes* attributes, std::size_t* starts,
                    std::size_t attributes_count, CUstream stream, std::size_t& failed) {
    failed = kNoneFailed;
    if (targets == nullptr || sources == nullptr || sizes == nullptr || attributes == nullptr || starts == nullptr ||
        stream == nullptr || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    const Batch batch{
        {targets, count}, {sources, count}, {sizes, count}, {attributes, attributes_count}, {starts, attributes_count}};
    return batch.valid() ? copy_all(entry, batch, stream, failed) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* starts, size_t attributes_count,
                               CUstream stream) {
    VGPU_ENTER(cuMemcpyBatchAsync, Needs::Context, Hang::Enqueues);
    std::size_t failed = kNoneFailed;
    return copy_batch(entry, targets, sources, sizes, count, attributes, starts, attributes_count, stream, failed);
}

CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
                                    CUmemcpyAttributes* attributes, size_t* starts, size_t attributes_count,
                                    CUstream stream) {
    return cuMemcpyBatchAsync_v2(targets, sources, sizes, count, attributes, starts, attributes_count,
                                 per_thread(stream));
}

// CUDA 12.8's form says which copy failed: SIZE_MAX where the error is of none.
CUresult cuMemcpyBatchAsync(CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* starts, size_t attributes_count, size_t* failed,
                            CUstream stream) {
    VGPU_ENTER(cuMemcpyBatchAsync, Needs::Context, Hang::Enqueues);
    std::size_t none = kNoneFailed;  // NCCL 2.28 does not ask which
    return copy_batch(entry, targets, sources, sizes, count, attributes, starts, attributes_count, stream,
                      failed == nullptr ? none : *failed);
}

CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
                                 CUmemcpyAttributes* attributes, size_t* starts, size_t attributes_count,
                                 size_t* failed, CUstream stream) {
    return cuMemcpyBatchAsync(targets, sources, sizes, count, attributes, starts, attributes_count, failed,
                              per_thread(stream));
}
