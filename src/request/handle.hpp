// MPI requests that stand for operations, and what must be known of the program's own. Real handles throughout, so
// that arrays may mix them and Fortran may look inside: a generalized request for a non-blocking operation (MPI 4.0
// section 13.2), a persistent receive of an empty message from this process to itself for a persistent one.
// The real completion functions serve all of them; doors add what those cannot know (Completing).
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "datatype/layout.hpp"
#include "request/operation.hpp"

namespace swy::request {

// A new request for the operation, which completes when it does. Not under the engine's lock. MPI's code.
int hand_out(std::shared_ptr<Operation> operation, MPI_Request* request);

// A new inactive persistent request; `start` begins the operation each time it is started (nullptr, and MPI's code of
// an error that has been raised, when it cannot). Not under the lock.
using Starter = std::function<std::shared_ptr<Operation>(int& code)>;
int hand_out_persistent(CallId call, MPI_Comm comm, Starter start, MPI_Request* request);

// A receive into host memory that MPI carries, but in which an envelope may arrive: where its first bytes are is
// remembered until it completes. `layout` is null for a predefined type. Lock-free for a handle that MPI has used
// before.
struct HostReceive {
    void* address = nullptr;
    std::size_t count = 0;
    std::size_t bytes = 0;  // capacity
    std::shared_ptr<const datatype::Layout> layout;
    MPI_Comm comm = MPI_COMM_NULL;
    CallId call{};
};
void watch(MPI_Request request, HostReceive receive, bool persistent);

// What happens when a watched receive has completed with as many bytes as an envelope has: settles it when it is one,
// and rewrites the status; MPI's class of error. `ahead`: the program has yet to complete it, and it is asked again
// then. Called under the engine's lock. Set by p2p.
using Arrived = int (*)(const HostReceive& receive, MPI_Status& status, bool ahead);
extern Arrived envelope_arrived;

// A service of the engine, for processes in which one thread calls MPI: an envelope that has arrived in a watched
// receive is answered although the program has yet to complete it. It may wait for its own sends first, whose receivers
// wait for that answer: both have been sent too long a message, and must hear of it.
bool answer_watched();

// Is there any request of ours, or any watched one? While not, completion doors are the real functions.
extern std::atomic<int> known_requests;

// Before MPI goes down.
void release_handles();

}  // namespace swy::request
