#include "vgpu/cuda/capture.hpp"

#include <utility>

namespace vgpu::cuda {
namespace {

CUresult life_result() {
    switch (life()) {
        case Life::Running:
            return CUDA_SUCCESS;
        case Life::Ended:
            return CUDA_ERROR_DEINITIALIZED;
        default:
            return CUDA_ERROR_NOT_INITIALIZED;  // in a forked child as before cuInit
    }
}

}  // namespace

Entry::Entry(FaultPoint& point, Needs needs, Hang hang) : point_(point) {
    if (calls_wanted())
        log(name(), "call");
    const char* fault = nullptr;
    switch (point.pass(&fault)) {
        case kVgpuFaultError:
            if (!error_by_name(fault, result_))
                result_ = CUDA_ERROR_UNKNOWN;
            return;
        case kVgpuFaultHang:
            if (hang == Hang::Blocks)
                hang_here();
            hang_ = true;
            break;
        case kVgpuFaultNone:
            break;
    }
    if (needs == Needs::Nothing)
        return;
    result_ = life_result();
    if (result_ == CUDA_SUCCESS && in_host_function())
        result_ = CUDA_ERROR_NOT_PERMITTED;
    if (result_ == CUDA_SUCCESS && captures().any() && known_unsafe(name()))
        result_ = potentially_unsafe();
    if (result_ != CUDA_SUCCESS || needs == Needs::Init)
        return;
    context_ = current_context();
    if (context_ == nullptr)
        result_ = CUDA_ERROR_INVALID_CONTEXT;
    else if (!context_->active())
        result_ = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
        result_ = failure_of(*context_);
}

Registry<Stream>& stream_handles() {
    static auto& all = *new Registry<Stream>;
    return all;
}

Registry<Event>& event_handles() {
    static auto& all = *new Registry<Event>;
    return all;
}

Context* context_of(CUcontext handle) {
    auto* const context = reinterpret_cast<Context*>(handle);
    return known_context(context) && context->active() ? context : nullptr;
}

std::shared_ptr<Stream> stream_of(const Entry& entry, CUstream stream) {
    if (stream == nullptr || stream == CU_STREAM_LEGACY)
        return entry.context().legacy();
    if (stream == CU_STREAM_PER_THREAD)
        return entry.context().per_thread();
    return stream_handles().find(stream);
}

Logged::Logged(const char* operation, const Stream* stream, Fields fields) : operation_(operation) {
    if (!log_wanted())
        return;
    static std::atomic<std::uint64_t> serial{1};
    if (stream != nullptr)
        fields.add("stream", stream->id())
            .add("device", static_cast<std::uint64_t>(stream->context().device().ordinal));
    fields.add("id", serial.fetch_add(1));
    fields_ = fields.text();
}

void Logged::launch() const {
    if (log_wanted())
        log(operation_, "launch", fields_);
}

std::function<void()> Logged::wrap(std::function<void()> run) const {
    if (!log_wanted())
        return run;
    return [operation = operation_, fields = fields_, run = std::move(run)] {
        log(operation, "start", fields);
        run();
        log(operation, "end", fields);
    };
}

void log_wait(const char* operation, const Stream* stream) {
    if (!log_wanted())
        return;
    Fields fields;
    if (stream != nullptr)
        fields.add("stream", stream->id());
    log(operation, "launch", fields.text());
}

}  // namespace vgpu::cuda
