#include "request/table.hpp"

#include <bit>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "request/known.hpp"

namespace swy::request {

constinit std::atomic<int> known_requests{0};

namespace {

// The lowest bits of Record::state.
enum Phase : std::uint64_t { kFree = 0, kBusy = 1, kUsed = 2, kPhases = 3 };

constexpr std::uint64_t phase(std::uint64_t state) {
    return state & kPhases;
}
constexpr std::uint64_t next(std::uint64_t state, Phase to) {
    return (((state >> 2) + 1) << 2) | to;
}

// Open addressing; at most half full, so that every search ends at an empty place.
class Places {
  public:
    explicit Places(std::size_t size) : places_(size) {}

    std::size_t size() const { return places_.size(); }
    std::size_t first(MPI_Request request) const {
        const auto hash = (reinterpret_cast<std::uintptr_t>(request) >> 4) * 0x9e3779b97f4a7c15u;
        return hash >> (64 - std::countr_zero(places_.size()));
    }
    std::size_t after(std::size_t place) const { return (place + 1) & (places_.size() - 1); }
    Record* at(std::size_t place) const { return places_[place].load(std::memory_order_acquire); }
    void put(std::size_t place, Record* record) { places_[place].store(record, std::memory_order_release); }

    Record* search(MPI_Request request) const {
        for (std::size_t place = first(request); Record* record = at(place); place = after(place))
            if (record->request.load(std::memory_order_acquire) == request)
                return record;
        return nullptr;
    }

  private:
    std::vector<std::atomic<Record*>> places_;
};

// A larger table takes the place of one that is half full. The old one stays, for whoever searches it.
std::atomic<Places*> table{nullptr};
std::mutex table_mutex;
std::size_t records_made = 0;

// Makes the record busy. False when it is for another request by now.
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
    Places* old = table.load(std::memory_order_relaxed);
    if (old != nullptr && 2 * (records_made + 1) <= old->size())
        return;
    auto larger = std::make_unique<Places>(old != nullptr ? 2 * old->size() : 256);
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

// A busy record for an address that has none. Under the mutex, so that no address gets two.
Record* make(MPI_Request request) {
    grow();
    Places& places = *table.load(std::memory_order_relaxed);
    std::size_t place = places.first(request);
    for (; Record* record = places.at(place); place = places.after(place))
        if (Record* taken = take_free(*record, request))
            return taken;
    auto record = std::make_unique<Record>();
    record->request = request;
    record->state = kBusy;
    ++records_made;
    places.put(place, record.get());
    return record.release();
}

Record& busy(MPI_Request request) {
    bool was_used = false;
    Record* record = nullptr;
    if (const Places* places = table.load(std::memory_order_acquire))
        record = places->search(request);
    if (record == nullptr || !take(*record, request, was_used)) {
        const std::scoped_lock lock(table_mutex);
        if (const Places* places = table.load(std::memory_order_relaxed))
            record = places->search(request);
        if (record == nullptr || !take(*record, request, was_used))
            record = make(request);
    }
    if (!was_used)  // else it counts already: who has completed the request before it has yet to leave
        known_requests.fetch_add(1, std::memory_order_relaxed);
    return *record;
}

void publish(Record& record) {
    record.state.store(next(record.state.load(std::memory_order_relaxed), kUsed), std::memory_order_release);
}

}  // namespace

void look_at_some(void (*look)(Record& record)) {
    constexpr std::size_t kAtOnce = 64;  // places; most are empty
    static std::size_t place = 0;
    const Places* places = table.load(std::memory_order_acquire);
    for (std::size_t i = 0; places != nullptr && i < kAtOnce; ++i) {
        place = places->after(place & (places->size() - 1));
        Record* record = places->at(place);
        if (record != nullptr && phase(record->state.load(std::memory_order_acquire)) == kUsed)
            look(*record);
    }
}

Found find(MPI_Request request) {
    const Places* places = table.load(std::memory_order_acquire);
    if (places == nullptr || request == MPI_REQUEST_NULL)
        return {};
    Record* record = places->search(request);
    if (record == nullptr)
        return {};
    const std::uint64_t state = record->state.load(std::memory_order_acquire);
    // Asked again: the record may have been taken for another address in between.
    if (phase(state) != kUsed || record->request.load(std::memory_order_acquire) != request)
        return {};
    return {record, state};
}

void enter(MPI_Request request, std::shared_ptr<Handle> handle) {
    Record& record = busy(request);
    record.handle = std::move(handle);
    publish(record);
}

void enter(MPI_Request request, HostReceive receive, bool persistent) {
    Record& record = busy(request);
    record.handle.reset();
    record.receive = std::move(receive);
    record.persistent = persistent;
    record.started = false;
    record.answered = false;
    publish(record);
}

void leave(const Found& found) {
    std::uint64_t state = found.state;
    if (!found.record->state.compare_exchange_strong(state, next(state, kBusy), std::memory_order_acq_rel))
        return;
    const std::shared_ptr<Handle> handle = std::move(found.record->handle);  // ends after the record is free
    found.record->receive.layout.reset();
    known_requests.fetch_sub(1, std::memory_order_relaxed);
    found.record->state.store(next(next(state, kBusy), kFree), std::memory_order_release);
}

}  // namespace swy::request
