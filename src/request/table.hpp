// The table of requests that are Switchyard's or watched: from the real handle to what is known of it. MPI reuses the
// addresses of handles, so a record that is once made for an address stays, and is in use or not; only when none is
// free for a new address, a free record of another address is taken. Only src/request uses it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "request/handle.hpp"

namespace swy::request {

class Handle;

// What a completed receive holds: an ordinary message, or else an envelope of a message that is too long for it; the
// value is that message's bytes.
using Seen = std::uint64_t;
inline constexpr Seen kNotSeen = ~Seen{0}, kOrdinary = 0;

struct Record {
    std::atomic<MPI_Request> request{MPI_REQUEST_NULL};
    // The lowest bits say whether the record is in use; the bits above count how often that has changed, so that
    // whoever saw a record in use can tell whether it is still for the same request.
    std::atomic<std::uint64_t> state{0};

    // Valid while in use. Only the thread that uses the request touches these: MPI lets one thread at a time do that.
    std::shared_ptr<Handle> handle;  // of a request of Switchyard's; null for a watched receive
    HostReceive receive;
    HostStarter start;     // of a persistent watched receive
    bool started = false;  // of a persistent watched receive: MPI has started it, and it is not completed yet
    bool waited = false;   // of a watched receive: a call that waits has been passed it
    // Of a watched receive: what its memory has held, once it has been checked. That is done once, for the program may
    // reuse the memory as soon as it knows that the receive is complete.
    std::atomic<Seen> seen{kNotSeen};
    // Of a persistent watched receive: the request for the operation that receives in place of MPI's request
    // (stand_in.hpp).
    MPI_Request stand_in = MPI_REQUEST_NULL;

    bool persistent() const { return start != nullptr; }
};

// A record in use, and the state in which it was seen.
struct Found {
    Record* record = nullptr;
    std::uint64_t state = 0;
    explicit operator bool() const { return record != nullptr; }
};

// Passes some of the records in use to `look`, others each time. Called only where no other thread can end their use
// meanwhile.
void look_at_some(void (*look)(Record& record));

// Returns the record of a request, if it is in use. Takes no lock.
Found find(MPI_Request request);

// Returns `seen` of the record as it was found; kNotSeen where the record is for another request by now.
Seen seen_by(const Found& found);

// Adds a request. Takes a lock only where the address is new. Throws std::bad_alloc.
void enter(MPI_Request request, std::shared_ptr<Handle> handle);
void enter(MPI_Request request, HostReceive receive, HostStarter start);

// Ends the use of the record unless it is for another request by now, to which MPI has given the same address.
void leave(const Found& found);

}  // namespace swy::request
