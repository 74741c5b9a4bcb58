// Which requests are ours or watched: from the real handle to what is known of it. MPI uses the addresses of handles
// again, so a record that is once made for one stays, and is in use or not; only when there are none left for a new
// address a record of another one is taken. Used by src/request alone.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "request/handle.hpp"

namespace swy::request {

class Handle;

struct Record {
    std::atomic<MPI_Request> request{MPI_REQUEST_NULL};
    // In use or not in the lowest bits; above them how often that has changed, so that who saw a record in use can tell
    // whether it is still for the same request.
    std::atomic<std::uint64_t> state{0};

    // While in use. Only the thread that uses the request touches these: MPI lets one thread at a time do that.
    std::shared_ptr<Handle> handle;  // of a request of ours; null for a watched receive
    HostReceive receive;
    bool persistent = false;  // of a watched receive
    bool started = false;     // a persistent one, not yet completed
    bool answered = false;    // of a watched receive: it is over, and an envelope in it has been answered
};

// A record in use, and the state in which it was seen.
struct Found {
    Record* record = nullptr;
    std::uint64_t state = 0;
    explicit operator bool() const { return record != nullptr; }
};

// Shows some of the records in use, others each time. Only where no other thread can end their use meanwhile.
void look_at_some(void (*look)(Record& record));

// Takes no lock.
Found find(MPI_Request request);

// Enters a request. Takes a lock only where the address is new. Throws std::bad_alloc.
void enter(MPI_Request request, std::shared_ptr<Handle> handle);
void enter(MPI_Request request, HostReceive receive, bool persistent);

// Ends the use of the record unless it is for another request meanwhile, which MPI has given the same address.
void leave(const Found& found);

}  // namespace swy::request
