#include "request/table.hpp"

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "progress/engine.hpp"
#include "request/receive_buffers.hpp"

namespace swy::request {

namespace {

std::mutex table_mutex;
std::size_t records_made = 0;
std::vector<Record*> spare;  // records that were replaced and are free now

// Changes the record's phase where its state is `state`; if not, sets `state` to what it is.
inline bool change(Record& record, std::uint64_t& state, Phase to) {
    if (!one_thread)
        return record.state.compare_exchange_strong(state, next(state, to), std::memory_order_acq_rel);
    const std::uint64_t now = record.state.load(std::memory_order_relaxed);
    if (now == state)
        record.state.store(next(state, to), std::memory_order_relaxed);
    return std::exchange(state, now) == now;
}

void count(int more) {
    std::atomic<int>& known = progress::known_requests;
    if (one_thread)
        known.store(known.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    else
        known.fetch_add(more, std::memory_order_relaxed);
}

// Makes a record busy that is free, and still for this request.
inline bool take(Record& record, MPI_Request request) {
    std::uint64_t state = record.state.load(std::memory_order_acquire);
    // No other request comes in between, for that changes the state.
    return phase(state) == kFree && record.request.load(std::memory_order_acquire) == request &&
           change(record, state, kBusy);
}

Record* take_free(Record& record, MPI_Request request) {
    std::uint64_t state = record.state.load(std::memory_order_acquire);
    if (phase(state) != kFree || !change(record, state, kBusy))
        return nullptr;
    record.request.store(request, std::memory_order_release);
    return &record;
}

Record* make_busy(MPI_Request request) {
    std::unique_ptr<Record> made;
    if (spare.empty())
        made = std::make_unique<Record>();
    Record* const record = made != nullptr ? made.release() : spare.back();
    if (!spare.empty())
        spare.pop_back();
    record->request = request;
    record->state.store(next(record->state.load(std::memory_order_relaxed), kBusy), std::memory_order_release);
    return record;
}

void grow() {
    HandleMap* old = table.load(std::memory_order_relaxed);
    if (old != nullptr && 2 * (records_made + 1) <= old->size())
        return;
    auto larger = std::make_unique<HandleMap>(old != nullptr ? 2 * old->size() : 256);
    for (std::size_t i = 0; old != nullptr && i < old->size(); ++i) {
        Record* record = old->at(i);
        if (record == nullptr)
            continue;
        std::size_t place = larger->first(record->request.load());
        while (larger->at(place) != nullptr)
            place = larger->after(place);
        larger->put(place, record);
    }
    table.store(larger.release(), std::memory_order_release);
}

// Returns a busy record for an address that has none. Called under the mutex, so that no address gets two.
Record* make(MPI_Request request) {
    grow();
    HandleMap& map = *table.load(std::memory_order_relaxed);
    std::size_t place = map.first(request);
    for (; Record* record = map.at(place); place = map.after(place))
        if (Record* taken = take_free(*record, request))
            return taken;
    Record* const record = make_busy(request);
    ++records_made;
    map.put(place, record);
    return record;
}

// Returns a busy record for an address whose record is still in use: whoever has completed the request that had the
// address has yet to leave. Returns nullptr where that has changed. Called under the mutex.
Record* replace(HandleMap& map, std::size_t place, Record& old) {
    std::uint64_t state = old.state.load(std::memory_order_acquire);
    if (phase(state) != kUsed)
        return nullptr;
    Record* const record = make_busy(old.request);
    if (change(old, state, kReplaced)) {
        map.put(place, record);
        return record;
    }
    record->state.store(next(record->state.load(std::memory_order_relaxed), kFree), std::memory_order_release);
    spare.push_back(record);
    return nullptr;
}

Record* take_or_make(MPI_Request request) {
    const std::scoped_lock lock(table_mutex);
    for (;;) {
        HandleMap* const map = table.load(std::memory_order_relaxed);
        std::size_t place = 0;
        Record* const record = map != nullptr ? map->search(request, place) : nullptr;
        if (record == nullptr)
            return make(request);
        if (take(*record, request))
            return record;
        if (Record* const other = replace(*map, place, *record))
            return other;
        std::this_thread::yield();  // another thread is about to leave the record
    }
}

Record& busy(MPI_Request request) {
    const HandleMap* const map = table.load(std::memory_order_acquire);
    Record* record = map != nullptr ? map->search(request) : nullptr;
    if (record == nullptr || !take(*record, request)) [[unlikely]]
        record = take_or_make(request);
    count(1);
    return *record;
}

void publish(Record& record) {
    record.state.store(next(record.state.load(std::memory_order_relaxed), kUsed), std::memory_order_release);
}

// Empties a record. What it has held is destroyed at the end of the caller, when the record is free.
struct Content {
    explicit Content(Record& record)
        : handle(std::move(record.handle)),
          start(std::exchange(record.start, nullptr)),
          operation(std::move(record.operation)),
          layout(std::move(record.receive.layout)) {
        record.started = false;
        if (std::exchange(record.is_large, false))
            --large_receives;
        if (const void* buffer = std::exchange(record.receive.buffer, nullptr))
            buffers::leave(buffer, true);
    }
    const std::shared_ptr<Handle> handle;
    const HostStarter start;
    const std::shared_ptr<progress::Operation> operation;
    const std::shared_ptr<const datatype::Layout> layout;
};

void make_spare(Record& record) {
    const std::scoped_lock lock(table_mutex);
    record.state.store(next(record.state.load(std::memory_order_relaxed), kFree), std::memory_order_release);
    spare.push_back(&record);
}

}  // namespace

constinit std::atomic<HandleMap*> table{nullptr};

constinit bool one_thread = false;
constinit int large_receives = 0;

namespace {

void look_at_entry(const HandleMap& map, std::size_t place, void (*look)(Record& record)) {
    Record* record = map.at(place);
    if (record != nullptr && phase(record->state.load(std::memory_order_acquire)) == kUsed)
        look(*record);
}

}  // namespace

void look_at_some(void (*look)(Record& record)) {
    constexpr std::size_t kAtOnce = 64;  // entries; most are empty
    static std::size_t place = 0;
    const HandleMap* map = table.load(std::memory_order_acquire);
    for (std::size_t i = 0; map != nullptr && i < kAtOnce; ++i) {
        place = map->after(place & (map->size() - 1));
        look_at_entry(*map, place, look);
    }
}

void look_at_all(void (*look)(Record& record)) {
    const HandleMap* map = table.load(std::memory_order_acquire);
    for (std::size_t place = 0; map != nullptr && place < map->size(); ++place)
        look_at_entry(*map, place, look);
}

void enter(MPI_Request request, std::shared_ptr<Handle> handle) {
    Record& record = busy(request);
    record.handle = std::move(handle);
    publish(record);
}

void enter(MPI_Request request, HostReceive&& receive) {
    Record& record = busy(request);
    record.receive = std::move(receive);
    record.checked = record.gone = false;
    record.is_large = record.receive.buffer != nullptr;
    large_receives += record.is_large ? 1 : 0;
    publish(record);
}

void enter(MPI_Request request, HostReceive&& receive, HostStarter start) {
    Record& record = busy(request);
    record.receive = std::move(receive);
    record.start = std::move(start);
    record.checked = record.gone = false;
    publish(record);
}

void leave_carefully(const Found& found) {
    Record& record = *found.record;
    std::uint64_t state = found.state;
    const bool in_table = change(record, state, kBusy);
    if (!in_table && state != next(found.state, kReplaced))
        return;
    const Content content(record);
    count(-1);
    if (in_table)
        record.state.store(next(next(found.state, kBusy), kFree), std::memory_order_release);
    else
        make_spare(record);
}

}  // namespace swy::request
