// The table of requests that are Switchyard's or watched: from the real handle to what is known of it. MPI reuses the
// addresses of handles, so a record that is once made for an address stays, and is in use or not; only when none is
// free for a new address, a free record of another address is taken. Only src/request uses it.
//
// A record stays what it is from enter() to leave(), so a completion call need not copy what it has found before the
// real call: MPI may give the address to a new request within that call, for an error handler of the program or for
// another thread, and that request gets a record of its own in this one's place.
#pragma once

#include <mpi.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "call/hash.hpp"
#include "progress/engine.hpp"
#include "progress/operation.hpp"
#include "request/handle.hpp"

namespace swy::request {

// The object behind a request of Switchyard's.
class Handle : public progress::Completion {
  public:
    // The operation that the request stands for; null for an inactive persistent one.
    const std::shared_ptr<progress::Operation>& operation() const { return operation_; }

    virtual bool persistent() const = 0;

    // Starts a persistent request, whose handle MPI may replace. Returns MPI's code; an error has been raised.
    virtual int start(MPI_Request& request) = 0;

    // Handles MPI_Request_free: the operation goes on, and no call returns its outcome any more.
    virtual int free(MPI_Request& request) = 0;

    // Called when the program has completed the request.
    void ended() {
        if (persistent())
            operation_.reset();
    }

  protected:
    std::shared_ptr<progress::Operation> operation_;
};

// Writes the outcome to the program's status.
void show(const progress::Outcome& outcome, MPI_Status& status);

// Prints the failure of an operation whose request has been freed: there is no call that could return it.
void say_unasked(const progress::Operation& operation);

class Handle;

// The lowest bits of Record::state. A record that is replaced is in use, but no longer in the table.
enum Phase : std::uint64_t { kFree = 0, kBusy = 1, kUsed = 2, kReplaced = 3, kPhases = 3 };

constexpr std::uint64_t phase(std::uint64_t state) {
    return state & kPhases;
}
constexpr std::uint64_t next(std::uint64_t state, Phase to) {
    return (((state >> 2) + 1) << 2) | to;
}

struct Record {
    std::atomic<MPI_Request> request{MPI_REQUEST_NULL};
    // The lowest bits say whether the record is in use; the bits above count how often that has changed, so that
    // whoever saw a record in use can tell whether it is still for the same request.
    std::atomic<std::uint64_t> state{0};

    // Valid while in use; a record that is free holds nothing. Only the thread that uses the request touches these: MPI
    // lets one thread at a time do that.
    std::shared_ptr<Handle> handle;  // of a request of Switchyard's; null for a watched receive
    HostReceive receive;
    HostStarter start;     // of a persistent watched receive
    bool started = false;  // of a persistent watched receive: MPI has started it, and it is not completed yet
    // Of a watched receive whose memory has been checked. That is done once, for the program may reuse the memory as
    // soon as it knows that the receive is complete.
    bool checked = false;
    bool gone = false;  // of a watched receive: MPI has completed the request, and may not be asked about it any more
    bool is_large = false;  // of a watched receive: its message may be a large one
    // Goes on with the message whose envelope a watched receive has received. MPI's request is complete then.
    std::shared_ptr<progress::Operation> operation;
    // Of a persistent watched receive: the request for the operation that receives in place of MPI's request
    // (completing.hpp).
    MPI_Request stand_in = MPI_REQUEST_NULL;

    bool persistent() const { return start != nullptr; }
    // Has the record nothing that takes time to destroy?
    bool is_simple() const {
        return handle == nullptr && start == nullptr && operation == nullptr && receive.layout == nullptr && !is_large;
    }
};

// Open addressing; at most half full, so that every search ends at an empty entry.
class HandleMap {
  public:
    explicit HandleMap(std::size_t size) : map_(size), shift_(64 - std::countr_zero(size)) {}

    std::size_t size() const { return map_.size(); }
    std::size_t first(MPI_Request request) const {
        return (reinterpret_cast<std::uintptr_t>(request) >> 4) * call::kGoldenRatio >> shift_;
    }
    std::size_t after(std::size_t place) const { return (place + 1) & (map_.size() - 1); }
    Record* at(std::size_t place) const { return map_[place].load(std::memory_order_acquire); }
    void put(std::size_t place, Record* record) { map_[place].store(record, std::memory_order_release); }

    // `place` is where the record is, or an empty entry behind all that could be it.
    Record* search(MPI_Request request, std::size_t& place) const {
        for (place = first(request); Record* record = at(place); place = after(place))
            if (record->request.load(std::memory_order_acquire) == request)
                return record;
        return nullptr;
    }
    Record* search(MPI_Request request) const {
        std::size_t place = 0;
        return search(request, place);
    }

  private:
    std::vector<std::atomic<Record*>> map_;
    int shift_;
};

// A larger table replaces one that is half full. The old one stays, for whoever searches it.
[[gnu::visibility("hidden")]] extern std::atomic<HandleMap*> table;

// A record in use, and the state in which it was seen.
struct Found {
    Record* record = nullptr;
    std::uint64_t state = 0;
    explicit operator bool() const { return record != nullptr; }
};

// The number of watched receives that may be of a large message. Only processes with one thread have any.
extern int large_receives;

// Passes some of the records in use to `look`, others each time. Called only where no other thread can end their use
// meanwhile.
void look_at_some(void (*look)(Record& record));

// The same for all records in use.
void look_at_all(void (*look)(Record& record));

// Returns the record of a request, if it is in use. Takes no lock.
inline Found find(MPI_Request request) {
    const HandleMap* map = table.load(std::memory_order_acquire);
    Record* record = map != nullptr ? map->search(request) : nullptr;
    if (record == nullptr)
        return {};
    const std::uint64_t state = record->state.load(std::memory_order_acquire);
    // Checked again: the record may have been taken for another address in between.
    if (phase(state) != kUsed || record->request.load(std::memory_order_acquire) != request)
        return {};
    return {record, state};
}

// Adds a request. Takes a lock only where the address is new, or its record is still in use. Throws std::bad_alloc.
void enter(MPI_Request request, std::shared_ptr<Handle> handle);
void enter(MPI_Request request, HostReceive&& receive);
void enter(MPI_Request request, HostReceive&& receive, HostStarter start);

// Ends the use of the record, once. An instruction that locks memory takes as long as all else that is done for a
// record, so one thread alone does without.
void leave_carefully(const Found& found);

inline void leave(const Found& found) {
    Record& record = *found.record;
    if (!one_thread || record.state.load(std::memory_order_relaxed) != found.state || !record.is_simple()) [[unlikely]]
        return leave_carefully(found);
    std::atomic<int>& known = progress::known_requests;
    known.store(known.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    record.state.store(next(found.state, kFree), std::memory_order_relaxed);
}

}  // namespace swy::request
