// Events of programs.
#include "vgpu/cuda/capture.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
    VGPU_ENTER(cuEventCreate, Needs::Context);
    constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    // A time stamp of another process would not be comparable: the driver refuses timed interprocess events.
    const bool timed_ipc = (flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0;
    if (out == nullptr || (flags & ~kKnown) != 0 || timed_ipc)
        return CUDA_ERROR_INVALID_VALUE;
    auto event = std::make_shared<Event>(entry.context(), flags);
    if ((flags & CU_EVENT_INTERPROCESS) != 0 && !event->share())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = handle(event_handles().add(std::move(event)));
    return CUDA_SUCCESS;
}

namespace {

CUresult destroy(CUevent event) {
    return event_handles().remove(event) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult record(const Entry& entry, CUevent event, CUstream given) {
    const auto recorded = event_handles().find(event);
    const auto stream = stream_of(entry, given);
    // Event and stream must be of one context; for the default streams that is the current one.
    if (recorded == nullptr || stream == nullptr || &recorded->context() != &stream->context())
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::Node); result != CUDA_SUCCESS)
        return result;
    if (!record_in_capture(stream, *recorded))
        recorded->record(stream->context(), stream, entry.hang());
    return CUDA_SUCCESS;
}

CUresult elapsed(float* milliseconds, CUevent start, CUevent end) {
    const auto first = event_handles().find(start);
    const auto second = event_handles().find(end);
    if (milliseconds == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (first == nullptr || second == nullptr || &first->context() != &second->context() ||
        ((first->flags() | second->flags()) & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& event : {first, second})
        if (event->captured() != nullptr)
            return admit(*event);
    const auto from = first->last();
    const auto to = second->last();
    if (from == nullptr || to == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!from->done() || !to->done())
        return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(static_cast<double>(to->time.load() - from->time.load()) / 1e6);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuEventDestroy(CUevent event) {
    VGPU_ENTER(cuEventDestroy, Needs::Context);
    return destroy(event);
}

CUresult cuEventDestroy_v2(CUevent event) {
    VGPU_ENTER(cuEventDestroy, Needs::Context);
    return destroy(event);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    VGPU_ENTER(cuEventRecord, Needs::Context, Hang::Enqueues);
    return record(entry, event, stream);
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
    return cuEventRecord(event, per_thread(stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
    VGPU_ENTER(cuEventRecordWithFlags, Needs::Context, Hang::Enqueues);
    if (flags != CU_EVENT_RECORD_DEFAULT)
        return flags == CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
    return record(entry, event, stream);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
    return cuEventRecordWithFlags(event, per_thread(stream), flags);
}

CUresult cuEventQuery(CUevent event) {
    VGPU_ENTER(cuEventQuery, Needs::Init);
    const auto asked = event_handles().find(event);
    if (asked == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(*asked); result != CUDA_SUCCESS)
        return result;
    return asked->done() ? failure_of(asked->context()) : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
    VGPU_ENTER(cuEventSynchronize, Needs::Init);
    const auto awaited = event_handles().find(event);
    if (awaited == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(*awaited); result != CUDA_SUCCESS)
        return result;
    log_wait(entry.name(), nullptr);
    awaited->wait();
    return failure_of(awaited->context());
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    VGPU_ENTER(cuEventElapsedTime, Needs::Init);
    return elapsed(milliseconds, start, end);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    VGPU_ENTER(cuEventElapsedTime, Needs::Init);
    return elapsed(milliseconds, start, end);
}
