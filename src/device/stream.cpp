#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "device/context_pool.hpp"

namespace swy::device {
namespace {

using report::trace::Started;
using settings::Sync;

// Makes a call with a stream's context current and without disturbing stream captures.
template <typename Use>
Result with(Context context, Use use) {
    const Driver* d = driver();
    if (d == nullptr)
        return CUDA_ERROR_NOT_INITIALIZED;
    const ContextScope scope(context);
    return scope.result() != CUDA_SUCCESS ? scope.result() : use(*d);
}

Result wait_for_legacy_stream(const Driver& driver, StreamHandle stream, CUevent_st* event) {
    // Recording on the legacy stream while a stream that synchronises with it is captured would be an error and
    // invalidate the capture; this query is not.
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver.stream_is_capturing != nullptr &&
        driver.stream_is_capturing(CU_STREAM_LEGACY, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return CUDA_SUCCESS;
    if (const CUresult result = driver.event_record(event, CU_STREAM_LEGACY); result != CUDA_SUCCESS)
        return result;
    return driver.stream_wait_event(stream, event, 0);
}

// Waits until the context's device is idle. cuCtxSynchronize blocks, so a thread of its own makes the call.
Result wait_for_device(Context context, void (*progress)()) {
    Result result = CUDA_SUCCESS;
    std::atomic<bool> idle{false};
    std::thread waiter;
    try {
        waiter = std::thread([&] {
            result = with(context, [](const Driver& driver) -> Result { return driver.context_synchronize(); });
            idle.store(true, std::memory_order_release);
        });
    } catch (const std::system_error&) {  // the process may start no more threads
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    while (!idle.load(std::memory_order_acquire))
        progress();
    waiter.join();
    return result;
}

// For one side of a two-dimensional copy: pageable memory is named as host memory, since as "unified" it need not be
// accepted.
bool is_host(const void* address) {
    return !on_device(address);
}

// A copy's name in the trace.
std::string_view direction(const void* to, const void* from) {
    if (is_host(to))
        return "copy to host";
    return is_host(from) ? "copy to device" : "copy on device";
}

CUresult copy_rows(const Driver& driver, const CUDA_MEMCPY2D& shape, StreamHandle stream, void* to, const void* from) {
    for (std::size_t row = 0; row < shape.Height; ++row) {
        const CUresult result = driver.memcpy_async(pointer(to) + row * shape.dstPitch,
                                                    pointer(from) + row * shape.srcPitch, shape.WidthInBytes, stream);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

void tell_trace(StreamHandle stream, Context context) {
    const Driver* d = driver();
    if (d == nullptr || report::trace::knows_device(stream))
        return;
    const int ordinal = ordinal_of(*d, context);
    if (const std::string device = in_words(ordinal); !device.empty())
        report::trace::tell_device(stream, fmt::format("GPU {}: {}", ordinal, device));
}

}  // namespace

Result Stream::acquire(Context context, Stream& stream) {
    Stream made;
    std::shared_ptr<ContextPool> pool;
    if (const Result result = ContextPool::of(context, pool); result != CUDA_SUCCESS)
        return result;
    Handles handles;
    if (const Result result = pool->take_stream(handles); result != CUDA_SUCCESS)
        return result;
    made.pool_ = std::move(pool);
    made.context_ = context;
    made.stream_ = handles.stream;
    made.event_ = handles.event;
    made.work_ = Work::kDone;
    if (report::trace::on)
        tell_trace(made.stream_, context);
    stream = std::move(made);
    return CUDA_SUCCESS;
}

Result Stream::acquire_on(StreamHandle programs, Context context, Stream& stream) {
    Stream made;
    if (const Result result = acquire(context, made); result != CUDA_SUCCESS)
        return result;
    made.pooled_ = std::exchange(made.stream_, programs);
    made.work_ = Work::kQueued;
    if (report::trace::on)
        tell_trace(made.stream_, context);
    stream = std::move(made);
    return CUDA_SUCCESS;
}

Stream::~Stream() {
    give_back();
}

Stream::Stream(Stream&& other) noexcept
    : pool_(std::move(other.pool_)),
      context_(std::exchange(other.context_, nullptr)),
      stream_(std::exchange(other.stream_, nullptr)),
      pooled_(std::exchange(other.pooled_, nullptr)),
      knows_memops_(other.knows_memops_),
      work_(other.work_),
      event_(std::exchange(other.event_, nullptr)),
      traced_(std::move(other.traced_)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
    if (this != &other) {
        give_back();
        pool_ = std::move(other.pool_);
        context_ = std::exchange(other.context_, nullptr);
        stream_ = std::exchange(other.stream_, nullptr);
        pooled_ = std::exchange(other.pooled_, nullptr);
        knows_memops_ = other.knows_memops_;
        work_ = other.work_;
        event_ = std::exchange(other.event_, nullptr);
        traced_ = std::move(other.traced_);
    }
    return *this;
}

void Stream::give_back() noexcept {
    if (report::trace::on)
        traced_.lost(stream_);
    if (pool_ != nullptr)
        pool_->give_stream({pooled_ != nullptr ? pooled_ : stream_, event_}, work_ == Work::kDone);
    pool_.reset();
}

bool Stream::alive() const {
    const Driver* d = driver();
    return d != nullptr && pool_ != nullptr && pool_->alive(*d);
}

Result Stream::wait_for_program(Sync sync, void (*progress)()) {
    knows_memops_ = memops_may_stay.load(std::memory_order_relaxed);
    if (sync == Sync::kNone || (sync == Sync::kMemops && !knows_memops_))
        return CUDA_SUCCESS;
    const Result result = wait_for_context(context_, event_, sync, progress);
    return result == CUDA_SUCCESS && any_device_moves.load(std::memory_order_relaxed) ? wait_for_others(sync, progress)
                                                                                      : result;
}

bool Stream::has_to_wait_again() const {
    return !knows_memops_ && memops_may_stay.load(std::memory_order_relaxed);
}

Result Stream::wait_for_context(Context context, CUevent_st* event, Sync sync, void (*progress)()) {
    if (sync == Sync::kDevice)
        return wait_for_device(context, progress);
    return with(context,
                [&](const Driver& driver) -> Result { return wait_for_legacy_stream(driver, queue(), event); });
}

Result Stream::wait_for_others(Sync sync, void (*progress)()) {
    for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
        const Driver* d = driver();
        const Context context = d != nullptr ? primary_context(*d, ordinal) : nullptr;
        if (context == nullptr || context == context_)
            continue;
        Stream other;  // for its event
        Result result = acquire(context, other);
        if (result == CUDA_SUCCESS)
            result = wait_for_context(context, other.event_, sync, progress);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

Result Stream::copy(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0 || to == from)
        return CUDA_SUCCESS;
    const Started started;
    const Result result = with(context_, [&](const Driver& driver) -> Result {
        return driver.memcpy_async(pointer(to), pointer(from), bytes, queue());
    });
    if (report::trace::on && result == CUDA_SUCCESS)
        traced_.copied(direction(to, from), bytes, started.time);
    return result;
}

Result Stream::copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                       std::size_t rows) {
    if (width == 0 || rows == 0)
        return CUDA_SUCCESS;
    if (rows == 1 || (to_pitch == width && from_pitch == width))
        return copy(to, from, width * rows);
    CUDA_MEMCPY2D shape{};
    shape.srcMemoryType = is_host(from) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
    shape.srcHost = from;
    shape.srcDevice = pointer(from);
    shape.srcPitch = from_pitch;
    shape.dstMemoryType = is_host(to) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
    shape.dstHost = to;
    shape.dstDevice = pointer(to);
    shape.dstPitch = to_pitch;
    shape.WidthInBytes = width;
    shape.Height = rows;
    const Started started;
    const Result copied = with(context_, [&](const Driver& driver) -> Result {
        // Pitches beyond the device's limit, and some within one device that cuMemAllocPitch did not choose, are
        // refused.
        const CUresult result = driver.memcpy_2d_async(&shape, queue());
        return result == CUDA_ERROR_INVALID_VALUE ? copy_rows(driver, shape, queue(), to, from) : result;
    });
    if (report::trace::on && copied == CUDA_SUCCESS)
        traced_.copied(direction(to, from), width * rows, started.time);
    return copied;
}

Result Stream::call_host(void (*function)(void*), void* data) {
    return with(context_, [&](const Driver& driver) -> Result {
        return driver.launch_host_function != nullptr ? driver.launch_host_function(queue(), function, data)
                                                      : CUDA_ERROR_NOT_SUPPORTED;
    });
}

Stream::Capture Stream::capture() const {
    Capture capture = Capture::kNone;
    with(context_, [&](const Driver& driver) -> Result {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        if (driver.stream_is_capturing == nullptr)
            return CUDA_SUCCESS;
        const CUresult result = driver.stream_is_capturing(stream_, &status);
        capture = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT     ? Capture::kLegacy
                  : status == CU_STREAM_CAPTURE_STATUS_ACTIVE      ? Capture::kActive
                  : status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ? Capture::kInvalidated
                                                                   : Capture::kNone;
        return result;
    });
    return capture;
}

Result Stream::record() {
    traced_.mark();
    return with(context_, [&](const Driver& driver) -> Result {
        const CUresult result = driver.event_record(event_, queue());
        if (result == CUDA_SUCCESS)
            work_ = Work::kMarked;
        return result;
    });
}

Result Stream::query(bool& done) {
    done = false;
    const Driver* d = driver();
    if (d == nullptr)
        return CUDA_ERROR_NOT_INITIALIZED;
    const BesideCapture beside(*d);
    const CUresult result = d->event_query(event_);  // needs no current context
    done = result == CUDA_SUCCESS;
    if (done && work_ == Work::kMarked)
        work_ = Work::kDone;
    if (done && report::trace::on)
        traced_.done(stream_);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

Location locate_stream(StreamHandle programs) {
    Location location;
    const Driver* d = driver();
    CUcontext context = nullptr;
    if (d == nullptr || d->stream_get_context == nullptr || d->stream_get_context(programs, &context) != CUDA_SUCCESS)
        return location;
    location.kind = Kind::kDevice;
    location.context = context;
    location.ordinal = ordinal_of(*d, context);
    location.primary = is_primary(*d, context, location.ordinal);
    return location;
}

bool has_stream_order(int ordinal) {
    const Driver* d = driver();
    CUdevice device = 0;
    int pools = 0;
    return d != nullptr && d->memory_allocate_async != nullptr && d->memory_free_async != nullptr &&
           d->launch_host_function != nullptr && d->device_get(&device, ordinal) == CUDA_SUCCESS &&
           d->device_get_attribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device) == CUDA_SUCCESS &&
           pools != 0;
}

void release_pools() {
    ContextPool::close_all();
}

}  // namespace swy::device
