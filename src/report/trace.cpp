#include "report/trace.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>

namespace swy::report::trace {

bool on = false;

namespace {

// The memory is allocated once and used from its start: pages without events are never touched. It lives as long as the
// process, since a thread may still be adding when another is in MPI_Finalize.
struct Store {
    Event* events = nullptr;
    std::size_t capacity = 0;
    std::atomic<std::size_t> next{0};  // beyond the capacity: that many were dropped
    std::atomic<std::size_t> lost{0};  // of a stream's, when there was no memory
};
constinit Store store{};

struct Devices {
    std::mutex mutex;
    std::map<std::uint64_t, std::string> of_stream;
};
Devices& devices() {
    static auto* all = new Devices;  // not destroyed at exit
    return *all;
}

constinit std::atomic<std::uint64_t> threads{0};
constinit std::atomic<std::uint64_t> operations{0};

std::uint64_t this_thread() {
    thread_local const std::uint64_t number = threads.fetch_add(1, std::memory_order_relaxed);
    return number;
}

Time now() {
    return std::chrono::steady_clock::now();
}

void add(const Event& event) {
    const std::size_t index = store.next.fetch_add(1, std::memory_order_relaxed);
    if (index < store.capacity)
        std::construct_at(store.events + index, event);
}

}  // namespace

void start(std::size_t most_events) {
    store.events = static_cast<Event*>(::operator new(most_events * sizeof(Event), std::nothrow));
    store.capacity = store.events == nullptr ? 0 : most_events;
    store.next.store(0);
    this_thread();  // the thread that initialises MPI is the first
    on = true;
}

void stop() {
    on = false;
}

std::span<const Event> events() {
    return {store.events, std::min(store.next.load(), store.capacity)};
}

std::size_t dropped() {
    const std::size_t recorded = store.next.load();
    return recorded - std::min(recorded, store.capacity) + store.lost.load();
}

void end_call(std::string_view name, Carrier carrier, Reason reason, std::size_t bytes, Time begin) {
    add({name, begin, now(), bytes, this_thread(), 0, Track::kThread, true, carrier, reason});
}

void end_operation(std::string_view name, Carrier carrier, Reason reason, std::size_t bytes, Time begin,
                   std::uint64_t operation, const Subject& subject) {
    const Track track = subject.peer >= 0 ? Track::kMessage : Track::kOperation;
    add({name, begin, now(), bytes, operation, 0, track, true, carrier, reason, false, subject});
}

void end_part(std::string_view name, Time begin, std::uint64_t operation) {
    add({name, begin, now(), 0, operation, 0, Track::kOperation});
}

std::uint64_t draw_operation() {
    return operations.fetch_add(1, std::memory_order_relaxed);
}

void Part::end() const {
    add({name_, begin_, now(), 0, this_thread()});
}

void StreamWork::add(const Item& item) {
    try {
        items_.push_back(item);
    } catch (const std::bad_alloc&) {
        store.lost.fetch_add(1, std::memory_order_relaxed);
    }
}

void StreamWork::copied(std::string_view name, std::size_t bytes, Time begin) {
    if (items_.size() == marked_ || items_.back().name != name)
        return add({name, begin, bytes, 1});
    items_.back().bytes += bytes;
    ++items_.back().pieces;
}

void StreamWork::launched(std::string_view name, std::size_t bytes, Time begin) {
    add({name, begin, bytes, 0});
}

// Records events that share one end, so that on the stream's track each lies within the one before it.
void StreamWork::record(std::size_t count, const void* stream, bool unfinished) {
    const Time end = now();
    for (std::size_t i = 0; i < count; ++i) {
        const Item& item = items_[i];
        trace::add({item.name, item.begin, end, item.bytes, reinterpret_cast<std::uintptr_t>(stream), item.pieces,
                    Track::kStream, false, Carrier::kHost, Reason::kNone, unfinished});
    }
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(count));
    marked_ = 0;
    for (Item& left : items_)
        left.begin = std::max(left.begin, end);
}

void StreamWork::done(const void* stream) {
    if (marked_ != 0)
        record(marked_, stream, false);
}

void StreamWork::lost(const void* stream) {
    if (!items_.empty())
        record(items_.size(), stream, true);
}

bool knows_device(const void* stream) {
    return !device_of(reinterpret_cast<std::uintptr_t>(stream)).empty();
}

void tell_device(const void* stream, const std::string& device) {
    Devices& known = devices();
    const std::scoped_lock lock(known.mutex);
    known.of_stream.insert_or_assign(reinterpret_cast<std::uintptr_t>(stream), device);
}

std::string device_of(std::uint64_t stream) {
    Devices& known = devices();
    const std::scoped_lock lock(known.mutex);
    const auto found = known.of_stream.find(stream);
    return found != known.of_stream.end() ? found->second : std::string();
}

}  // namespace swy::report::trace
