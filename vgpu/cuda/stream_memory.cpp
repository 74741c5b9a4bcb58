// Stream memory operations: waiting for and writing 32- and 64-bit values in a stream's order.
#include <ctime>
#include <vector>

#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/transfer.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

template <typename Word>
bool holds(Word seen, Word value, unsigned condition) {
    switch (condition) {
        case CU_STREAM_WAIT_VALUE_GEQ:
            return static_cast<std::make_signed_t<Word>>(seen - value) >= 0;
        case CU_STREAM_WAIT_VALUE_EQ:
            return seen == value;
        case CU_STREAM_WAIT_VALUE_AND:
            return (seen & value) != 0;
        default:
            return ~(seen | value) != 0;  // CU_STREAM_WAIT_VALUE_NOR
    }
}

template <typename Word>
std::function<void()> waiting(Word* word, Word value, unsigned condition) {
    return [word, value, condition] {
        // The writer may be the host, another stream or another process, which cannot wake us, so we poll.
        for (long pause = 1000; !holds(__atomic_load_n(word, __ATOMIC_ACQUIRE), value, condition);
             pause = std::min(pause * 2, 200000l)) {
            const timespec time{0, pause};
            nanosleep(&time, nullptr);
        }
    };
}

template <typename Word>
CUresult wait_value(CUdeviceptr address, Word value, unsigned flags, std::function<void()>& run) {
    constexpr unsigned kCondition = 3;
    Side side;
    if ((flags & ~(kCondition | CU_STREAM_WAIT_VALUE_FLUSH)) != 0 || address % sizeof(Word) != 0 ||
        !resolve(at(address), sizeof(Word), Expect::Device, side))
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    run = waiting(reinterpret_cast<Word*>(side.at), value, flags & kCondition);
    return CUDA_SUCCESS;
}

template <typename Word>
CUresult write_value(CUdeviceptr address, Word value, unsigned flags, std::function<void()>& run) {
    Side side;
    if ((flags & ~static_cast<unsigned>(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) != 0 || address % sizeof(Word) != 0 ||
        !resolve(at(address), sizeof(Word), Expect::Device, side))
        return CUDA_ERROR_INVALID_VALUE;
    run = [word = reinterpret_cast<Word*>(side.at), value] { __atomic_store_n(word, value, __ATOMIC_RELEASE); };
    return CUDA_SUCCESS;
}

CUresult prepare(const CUstreamBatchMemOpParams& op, std::function<void()>& run) {
    switch (op.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            return wait_value(op.waitValue.address, op.waitValue.value, op.waitValue.flags, run);
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            return wait_value(op.waitValue.address, op.waitValue.value64, op.waitValue.flags, run);
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            return write_value(op.writeValue.address, op.writeValue.value, op.writeValue.flags, run);
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            return write_value(op.writeValue.address, op.writeValue.value64, op.writeValue.flags, run);
        case CU_STREAM_MEM_OP_BARRIER:
            run = [] {};
            return CUDA_SUCCESS;  // the order of a stream is one of its memory, too
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult submit(const Entry& entry, CUstream given, std::vector<std::function<void()>> runs) {
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::Node); result != CUDA_SUCCESS)
        return result;
    const Logged logged(entry.name(), stream.get(), {});
    logged.launch();
    stream->context().submit(stream, Work::MemoryOperations, logged.wrap([runs = std::move(runs)] {
        for (const auto& run : runs)
            run();
    }),
                             {}, entry.hang());
    return CUDA_SUCCESS;
}

CUresult batch(const Entry& entry, CUstream stream, unsigned count, const CUstreamBatchMemOpParams* ops,
               unsigned flags) {
    if (flags != 0 || count > 256 || (count != 0 && ops == nullptr))
        return CUDA_ERROR_INVALID_VALUE;
    std::vector<std::function<void()>> runs(count);
    for (unsigned i = 0; i < count; ++i)
        if (const CUresult result = prepare(ops[i], runs[i]); result != CUDA_SUCCESS)
            return result;
    return submit(entry, stream, std::move(runs));
}

}  // namespace

// The old (CUDA 8) and the present (11.7) functions differ in what they need of the device, not here.
#define VGPU_VALUE_OPERATION(family, exported, exported_ptsz, Word, prepare_value)                 \
    CUresult exported(CUstream stream, CUdeviceptr address, Word value, unsigned int flags) {      \
        VGPU_ENTER(family, Needs::Context, Hang::Enqueues);                                        \
        std::function<void()> run;                                                                 \
        const CUresult result = prepare_value(address, value, flags, run);                         \
        return result == CUDA_SUCCESS ? submit(entry, stream, {std::move(run)}) : result;          \
    }                                                                                              \
    CUresult exported_ptsz(CUstream stream, CUdeviceptr address, Word value, unsigned int flags) { \
        return exported(per_thread(stream), address, value, flags);                                \
    }

VGPU_VALUE_OPERATION(cuStreamWaitValue32, cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuuint32_t, wait_value)
VGPU_VALUE_OPERATION(cuStreamWaitValue32, cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, cuuint32_t, wait_value)
VGPU_VALUE_OPERATION(cuStreamWaitValue64, cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuuint64_t, wait_value)
VGPU_VALUE_OPERATION(cuStreamWaitValue64, cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, cuuint64_t, wait_value)
VGPU_VALUE_OPERATION(cuStreamWriteValue32, cuStreamWriteValue32, cuStreamWriteValue32_ptsz, cuuint32_t, write_value)
VGPU_VALUE_OPERATION(cuStreamWriteValue32, cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, cuuint32_t,
                     write_value)
VGPU_VALUE_OPERATION(cuStreamWriteValue64, cuStreamWriteValue64, cuStreamWriteValue64_ptsz, cuuint64_t, write_value)
VGPU_VALUE_OPERATION(cuStreamWriteValue64, cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, cuuint64_t,
                     write_value)

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* ops, unsigned int flags) {
    VGPU_ENTER(cuStreamBatchMemOp, Needs::Context, Hang::Enqueues);
    return batch(entry, stream, count, ops, flags);
}

CUresult cuStreamBatchMemOp_ptsz(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* ops,
                                 unsigned int flags) {
    return cuStreamBatchMemOp(per_thread(stream), count, ops, flags);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* ops, unsigned int flags) {
    VGPU_ENTER(cuStreamBatchMemOp, Needs::Context, Hang::Enqueues);
    return batch(entry, stream, count, ops, flags);
}

CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* ops,
                                    unsigned int flags) {
    return cuStreamBatchMemOp_v2(per_thread(stream), count, ops, flags);
}
