// Streams of programs: life, questions, waiting, host functions.
#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/release.hpp"
#include "vgpu/private.h"

#include <algorithm>

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

CUresult create(const Entry& entry, CUstream* out, unsigned flags, int priority) {
    if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const bool blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    const int clamped = std::clamp(priority, kGreatestPriority, kLeastPriority);
    *out = handle(stream_handles().add(entry.context().create_stream(blocking, clamped)));
    return CUDA_SUCCESS;
}

CUresult destroy(CUstream given) {
    if (given == nullptr || given == CU_STREAM_LEGACY || given == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    const auto stream = stream_handles().remove(given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    leave_capture(stream);
    stream->context().forget_stream(stream);  // returns at once; what is pending still runs
    return CUDA_SUCCESS;
}

// A program's function, from which the driver must not be called.
void call_host_function(const std::function<void()>& function) {
    in_host_function() = true;
    function();
    in_host_function() = false;
}

CUresult launch(const Entry& entry, const std::shared_ptr<Stream>& stream, Work work, std::function<void()> function) {
    if (const CUresult result = admit(stream, Use::Node); result != CUDA_SUCCESS)
        return result;
    const Logged logged(entry.name(), stream.get(), {});
    logged.launch();
    stream->context().submit(stream, work,
                             logged.wrap([function = std::move(function)] { call_host_function(function); }), {},
                             entry.hang());
    return CUDA_SUCCESS;
}

// "Host functions without a mandated order may be serialized", says cuLaunchHostFunc, and driver 580 does: one that
// does not return keeps those of all streams from running.
CUresult launch_host_function(const Entry& entry, CUstream given, std::function<void()> function) {
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    std::mutex& one_at_a_time = stream->context().host_functions();
    return launch(entry, stream, Work::HostFunction, [&one_at_a_time, function = std::move(function)] {
        const std::lock_guard guard(one_at_a_time);
        function();
    });
}

}  // namespace

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
    VGPU_ENTER(cuStreamCreate, Needs::Context);
    return create(entry, stream, flags, kLeastPriority);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
    VGPU_ENTER(cuStreamCreateWithPriority, Needs::Context);
    return create(entry, stream, flags, priority);
}

CUresult cuStreamDestroy(CUstream stream) {
    VGPU_ENTER(cuStreamDestroy, Needs::Context);
    return destroy(stream);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    VGPU_ENTER(cuStreamDestroy, Needs::Context);
    return destroy(stream);
}

CUresult cuStreamQuery(CUstream given) {
    VGPU_ENTER(cuStreamQuery, Needs::Context);
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::Wait); result != CUDA_SUCCESS)
        return result;
    if (stream->kind() != StreamKind::Legacy)
        return stream->idle() ? failure_of(stream->context()) : CUDA_ERROR_NOT_READY;
    // The legacy stream stands for all blocking streams of its context.
    for (const auto& other : stream->context().streams())
        if (other->blocking() && !other->idle())
            return CUDA_ERROR_NOT_READY;
    return failure_of(stream->context());
}

CUresult cuStreamQuery_ptsz(CUstream stream) {
    return cuStreamQuery(per_thread(stream));
}

CUresult cuStreamSynchronize(CUstream given) {
    VGPU_ENTER(cuStreamSynchronize, Needs::Context);
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::Wait); result != CUDA_SUCCESS)
        return result;
    log_wait(entry.name(), stream.get());
    if (stream->kind() == StreamKind::Legacy)
        stream->context().run(stream, {});
    else
        stream->wait(stream->last());
    return failure_of(stream->context());
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
    return cuStreamSynchronize(per_thread(stream));
}

CUresult cuStreamWaitEvent(CUstream given, CUevent event, unsigned int flags) {
    VGPU_ENTER(cuStreamWaitEvent, Needs::Context, Hang::Enqueues);
    const auto stream = stream_of(entry, given);
    const auto awaited = event_handles().find(event);
    if (stream == nullptr || awaited == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags != CU_EVENT_WAIT_DEFAULT)
        return flags == CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
    CUresult result = admit(stream, Use::Node);
    if (result != CUDA_SUCCESS || wait_in_capture(stream, *awaited, result))
        return result;
    awaited->make_wait(stream->context(), stream, entry.hang());
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
    return cuStreamWaitEvent(per_thread(stream), event, flags);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
    VGPU_ENTER(cuLaunchHostFunc, Needs::Context, Hang::Enqueues);
    if (function == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    return launch_host_function(entry, stream, [function, data] { function(data); });
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* data) {
    return cuLaunchHostFunc(per_thread(stream), function, data);
}

int vgpu_launch_kernel(void* stream, void (*run)(void*), void* data) {
    VGPU_ENTER(vgpu_launch_kernel, Needs::Context, Hang::Enqueues);
    const auto on = stream_of(entry, static_cast<CUstream>(stream));
    return on == nullptr ? CUDA_ERROR_INVALID_HANDLE : launch(entry, on, Work::Kernel, [run, data] { run(data); });
}

int vgpu_capture_kernel(void* stream, void* (*prepare)(void*), void (*run)(void*), void (*release)(void*), void* data) {
    const std::shared_ptr<void> kept(data, release);
    VGPU_ENTER(vgpu_launch_kernel, Needs::Context, Hang::Enqueues);
    const auto on = stream_of(entry, static_cast<CUstream>(stream));
    if (on == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(on, Use::Node); result != CUDA_SUCCESS)
        return result;
    const auto prepared = [kept, prepare, run]() -> std::function<void()> {
        return [run, launched = prepare(kept.get())] { run(launched); };
    };
    return captures().take(on, Work::Kernel, prepared, entry.hang()) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned int flags) {
    VGPU_ENTER(cuStreamAddCallback, Needs::Context, Hang::Enqueues);
    if (callback == nullptr || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (const auto on = stream_of(entry, stream); on != nullptr)  // no graph takes a callback (cuLaunchHostFunc)
        if (const CUresult result = admit(on, Use::NoNode); result != CUDA_SUCCESS)
            return result;
    return launch_host_function(entry, stream, [stream, callback, data] { callback(stream, CUDA_SUCCESS, data); });
}

CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* data, unsigned int flags) {
    return cuStreamAddCallback(per_thread(stream), callback, data, flags);
}

namespace {

// Queries of a stream's properties.
template <typename Value, typename Answer>
CUresult ask(const Entry& entry, CUstream given, Value* out, Answer answer) {
    if (out == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = answer(*stream);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
    VGPU_ENTER(cuStreamGetPriority, Needs::Context);
    return ask(entry, stream, priority, [](const Stream& s) { return s.priority(); });
}

CUresult cuStreamGetPriority_ptsz(CUstream stream, int* priority) {
    return cuStreamGetPriority(per_thread(stream), priority);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int* flags) {
    VGPU_ENTER(cuStreamGetFlags, Needs::Context);
    return ask(entry, stream, flags, [](const Stream& s) {
        return static_cast<unsigned>(s.blocking() ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    });
}

CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int* flags) {
    return cuStreamGetFlags(per_thread(stream), flags);
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
    VGPU_ENTER(cuStreamGetId, Needs::Context);
    return ask(entry, stream, id, [](const Stream& s) { return s.id(); });
}

CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* id) {
    return cuStreamGetId(per_thread(stream), id);
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
    VGPU_ENTER(cuStreamGetDevice, Needs::Context);
    return ask(entry, stream, device, [](const Stream& s) { return s.context().device().ordinal; });
}

CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device) {
    return cuStreamGetDevice(per_thread(stream), device);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    VGPU_ENTER(cuStreamGetCtx, Needs::Context);
    return ask(entry, stream, context, [](const Stream& s) { return handle(&s.context()); });
}

CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext* context) {
    return cuStreamGetCtx(per_thread(stream), context);
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
    VGPU_ENTER(cuStreamGetCtx, Needs::Context);
    if (green != nullptr)
        *green = nullptr;
    return ask(entry, stream, context, [](const Stream& s) { return handle(&s.context()); });
}

CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* context, CUgreenCtx* green) {
    return cuStreamGetCtx_v2(per_thread(stream), context, green);
}
