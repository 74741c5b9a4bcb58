#include "request/table.hpp"

#include <bit>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "call/hash.hpp"
#include "progress/engine.hpp"
#include "request/known.hpp"

namespace swy::request {

namespace {

// The lowest bits of Record::state.
enum Phase : std::uint64_t { kFree = 0, kBusy = 1, kUsed = 2, kPhases = 3 };

constexpr std::uint64_t phase(std::uint64_t state) {
    return state & kPhases;
}
constexpr std::uint64_t next(std::uint64_t state, Phase to) {
    return (((state >> 2) + 1) << 2) | to;
}

// Open addressing; at most half full, so that every search ends at an empty entry.
class HandleMap {
  public:
    explicit HandleMap(std::size_t size) : map_(size) {}

    std::size_t size() const { return map_.size(); }
    std::size_t first(MPI_Request request) const {
        const auto hash = (reinterpret_cast<std::uintptr_t>(request) >> 4) * call::kGoldenRatio;
        return hash >> (64 - std::countr_zero(map_.size()));
    }
    std::size_t after(std::size_t place) const { return (place + 1) & (map_.size() - 1); }
    Record* at(std::size_t place) const { return map_[place].load(std::memory_order_acquire); }
    void put(std::size_t place, Record* record) { map_[place].store(record, std::memory_order_release); }

    Record* search(MPI_Request request) const {
        for (std::size_t place = first(request); Record* record = at(place); place = after(place))
            if (record->request.load(std::memory_order_acquire) == request)
                return record;
        return nullptr;
    }

  private:
    std::vector<std::atomic<Record*>> map_;
};

// A larger table replaces one that is half full. The old one stays, for whoever searches it.
std::atomic<HandleMap*> table{nullptr};
std::mutex table_mutex;
std::size_t records_made = 0;

// Makes the record busy. Returns false when it is for another request by now.
bool take(Record& record, MPI_Request request, bool& was_used) {
    for (;;) {
        std::uint64_t state = record.state.load(std::memory_order_acquire);
        if (record.request.load(std::memory_order_acquire) != request)
            return false;
        if (phase(state) == kBusy) {  // another thread has completed the request that had this address
            std::this_thread::yield();
            continue;
        }
        // No other request has come in between, for that would have changed the state.
        if (record.state.compare_exchange_weak(state, next(state, kBusy), std::memory_order_acq_rel)) {
            was_used = phase(state) == kUsed;
            return true;
        }
    }
}

Record* take_free(Record& record, MPI_Request request) {
    std::uint64_t state = record.state.load(std::memory_order_acquire);
    if (phase(state) != kFree || !record.state.compare_exchange_strong(state, next(state, kBusy)))
        return nullptr;
    record.request.store(request, std::memory_order_release);
    return &record;
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
    auto record = std::make_unique<Record>();
    record->request = request;
    record->state = kBusy;
    ++records_made;
    map.put(place, record.get());
    return record.release();
}

Record& busy(MPI_Request request) {
    bool was_used = false;
    Record* record = nullptr;
    if (const HandleMap* map = table.load(std::memory_order_acquire))
        record = map->search(request);
    if (record == nullptr || !take(*record, request, was_used)) {
        const std::scoped_lock lock(table_mutex);
        if (const HandleMap* map = table.load(std::memory_order_relaxed))
            record = map->search(request);
        if (record == nullptr || !take(*record, request, was_used))
            record = make(request);
    }
    if (!was_used)  // else it is counted already: whoever has completed the request before it has yet to leave
        progress::known_requests.fetch_add(1, std::memory_order_relaxed);
    return *record;
}

void publish(Record& record) {
    record.state.store(next(record.state.load(std::memory_order_relaxed), kUsed), std::memory_order_release);
}

}  // namespace

void look_at_some(void (*look)(Record& record)) {
    constexpr std::size_t kAtOnce = 64;  // entries; most are empty
    static std::size_t place = 0;
    const HandleMap* map = table.load(std::memory_order_acquire);
    for (std::size_t i = 0; map != nullptr && i < kAtOnce; ++i) {
        place = map->after(place & (map->size() - 1));
        Record* record = map->at(place);
        if (record != nullptr && phase(record->state.load(std::memory_order_acquire)) == kUsed)
            look(*record);
    }
}

Found find(MPI_Request request) {
    const HandleMap* map = table.load(std::memory_order_acquire);
    if (map == nullptr || request == MPI_REQUEST_NULL)
        return {};
    Record* record = map->search(request);
    if (record == nullptr)
        return {};
    const std::uint64_t state = record->state.load(std::memory_order_acquire);
    // Checked again: the record may have been taken for another address in between.
    if (phase(state) != kUsed || record->request.load(std::memory_order_acquire) != request)
        return {};
    return {record, state};
}

Seen seen_by(const Found& found) {
    const Seen seen = found.record->seen.load(std::memory_order_acquire);
    return found.record->state.load(std::memory_order_acquire) == found.state ? seen : kNotSeen;
}

void enter(MPI_Request request, std::shared_ptr<Handle> handle) {
    Record& record = busy(request);
    record.handle = std::move(handle);
    publish(record);
}

void enter(MPI_Request request, HostReceive receive, HostStarter start) {
    Record& record = busy(request);
    record.handle.reset();
    record.receive = std::move(receive);
    record.start = std::move(start);
    record.started = false;
    record.waited = false;
    record.seen = kNotSeen;
    record.stand_in = MPI_REQUEST_NULL;
    publish(record);
}

void leave(const Found& found) {
    std::uint64_t state = found.state;
    if (!found.record->state.compare_exchange_strong(state, next(state, kBusy), std::memory_order_acq_rel))
        return;
    // These are destroyed after the
    const std::shared_ptr<Handle> handle = std::move(found.record->handle);
    const HostStarter start = std::exchange(found.record->start, nullptr);
    found.record->receive.layout.reset();
    progress::known_requests.fetch_sub(1, std::memory_order_relaxed);
    found.record->state.store(next(next(state, kBusy), kFree), std::memory_order_release);
}

}  // namespace swy::request
