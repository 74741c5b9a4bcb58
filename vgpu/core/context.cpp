#include "vgpu/core/context.hpp"

#include <algorithm>
#include <deque>

#include "vgpu/core/capture.hpp"
#include "vgpu/core/process.hpp"
#include "vgpu/core/settings.hpp"

namespace vgpu {
namespace {

std::atomic<std::uint64_t> g_next_context{1};
std::atomic<std::uint64_t> g_next_thread{1};

std::uint64_t this_thread() {
    thread_local const std::uint64_t serial = g_next_thread.fetch_add(1);
    return serial;
}

struct ContextStack {
    static constexpr int kDepth = 128;
    Context* entries[kDepth];  // no destructor, so that calls made while the thread's objects are destroyed still work
    int depth;
};
thread_local ContextStack t_stack{};

struct KnownContexts {
    std::mutex lock;
    std::set<const Context*> all;
};

KnownContexts& known() {
    static auto& contexts = *new KnownContexts;
    return contexts;
}

Context* remember(Context* context) {
    const std::lock_guard guard(known().lock);
    known().all.insert(context);
    return context;
}

}  // namespace

Context::Context(Device& device, bool primary, unsigned context_flags)
    : flags(context_flags),
      device_(device),
      primary_(primary),
      id_(g_next_context.fetch_add(1)),
      hardware_queues_(static_cast<std::size_t>(settings().queues)) {
    activate();
}

void Context::activate() {
    const std::lock_guard guard(order_);
    if (active_)
        return;
    legacy_ = std::make_shared<Stream>(*this, StreamKind::Legacy, true, 0, hardware_queues_);
    error_ = 0;
    active_ = true;
}

std::vector<Mark> Context::implied(const Stream& stream) {
    std::vector<Mark> after;
    if (stream.kind() == StreamKind::Legacy) {
        for (const auto& other : streams_)
            if (other->blocking() && !other->idle())
                after.push_back({other, other->last()});
    } else if (stream.blocking() && !legacy_->idle()) {
        after.push_back({legacy_, legacy_->last()});
    }
    return after;
}

Mark Context::submit(const std::shared_ptr<Stream>& stream, Work work, std::function<void()> operation,
                     std::vector<Mark> after, bool hang) {
    if (captures().any() && captures().take(
                                stream, work, [operation] { return operation; }, hang))
        return {};
    const std::lock_guard guard(order_);
    std::vector<Mark> marks = implied(*stream);
    marks.insert(marks.end(), std::make_move_iterator(after.begin()), std::make_move_iterator(after.end()));
    return {stream, stream->enqueue(std::move(marks), std::move(operation), hang, queue_of(work))};
}

void Context::run(const std::shared_ptr<Stream>& stream, const std::function<void()>& operation, bool hang) {
    std::vector<Mark> after;
    std::uint64_t ticket = 0;
    {
        const std::lock_guard guard(order_);
        after = implied(*stream);
        ticket = stream->take_ticket();
    }
    if (hang)
        hang_here();
    stream->run_here(ticket, after, operation);
}

std::shared_ptr<Stream> Context::create_stream(bool blocking, int priority) {
    auto stream = std::make_shared<Stream>(*this, StreamKind::Created, blocking, priority, hardware_queues_);
    const std::lock_guard guard(order_);
    streams_.push_back(stream);
    return stream;
}

void Context::forget_stream(const std::shared_ptr<Stream>& stream) {
    stream->close();
    const std::lock_guard guard(order_);
    // Pending work still takes part in the implicit order: a destroyed stream is removed when it is idle.
    std::erase_if(streams_, [](const auto& s) { return s->closed() && s->idle(); });
}

std::shared_ptr<Stream> Context::per_thread() {
    const std::lock_guard guard(order_);
    auto& stream = per_thread_[this_thread()];
    if (stream == nullptr) {
        stream = std::make_shared<Stream>(*this, StreamKind::PerThread, true, 0, hardware_queues_);
        streams_.push_back(stream);
    }
    return stream;
}

std::vector<std::shared_ptr<Stream>> Context::streams() const {
    const std::lock_guard guard(order_);
    std::vector<std::shared_ptr<Stream>> all = streams_;
    all.push_back(legacy_);
    return all;
}

void Context::synchronize() {
    std::vector<Mark> marks;
    for (const auto& stream : streams())
        marks.push_back({stream, stream->last()});
    for (const Mark& mark : marks)
        mark.stream->wait(mark.ticket);
}

bool Context::enable_peer(Context& peer) {
    const std::lock_guard guard(order_);
    return peers_.insert(&peer).second;
}

bool Context::disable_peer(Context& peer) {
    const std::lock_guard guard(order_);
    return peers_.erase(&peer) == 1;
}

bool Context::reaches(const Device& other) const {
    if (&other == &device_)
        return true;
    const std::lock_guard guard(order_);
    return std::any_of(peers_.begin(), peers_.end(), [&](const Context* peer) { return &peer->device() == &other; });
}

void Context::deactivate() {
    if (!active())
        return;
    synchronize();
    const std::lock_guard guard(order_);
    active_ = false;
    legacy_->close();
    for (const auto& stream : streams_)
        stream->close();
    streams_.clear();
    per_thread_.clear();
    peers_.clear();
}

Context* current_context() {
    return t_stack.depth == 0 ? nullptr : t_stack.entries[t_stack.depth - 1];
}

void set_current_context(Context* context) {
    if (context == nullptr) {
        t_stack.depth -= t_stack.depth > 0 ? 1 : 0;
        return;
    }
    if (t_stack.depth == 0)
        t_stack.depth = 1;
    t_stack.entries[t_stack.depth - 1] = context;
}

void push_context(Context* context) {
    if (t_stack.depth == ContextStack::kDepth) {  // the oldest is the least likely to be popped again
        std::copy(t_stack.entries + 1, t_stack.entries + ContextStack::kDepth, t_stack.entries);
        --t_stack.depth;
    }
    t_stack.entries[t_stack.depth++] = context;
}

bool pop_context(Context** popped) {
    if (t_stack.depth == 0)
        return false;
    *popped = t_stack.entries[--t_stack.depth];
    return true;
}

bool known_context(const Context* context) {
    const std::lock_guard guard(known().lock);
    return known().all.contains(context);
}

Context* create_context(Device& device, unsigned flags) {
    return remember(new Context(device, false, flags));
}

Primary& primary_of(Device& device) {
    static auto& all = *new std::deque<Primary>(static_cast<std::size_t>(devices().count()));
    return all[static_cast<std::size_t>(device.ordinal)];
}

Context& primary_context(Primary& primary, Device& device) {
    if (primary.context == nullptr)
        primary.context = remember(new Context(device, true, primary.flags));
    return *primary.context;
}

}  // namespace vgpu
