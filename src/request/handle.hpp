// MPI requests that stand for operations, and what must be known of the program's own requests. All handles are real
// ones, so that arrays may mix them and Fortran may look inside: a generalized request for a non-blocking operation
// (MPI 4.0 section 13.2), a persistent receive of an empty message from this process to itself for a persistent one.
// The real completion functions serve all of them; the wrappers add what those cannot know (Completing).
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "call/envelope.hpp"
#include "datatype/layout.hpp"
#include "progress/operation.hpp"

namespace swy::request {

// Creates a request for the operation, which completes when the operation does. Not called under the engine's lock.
// Returns MPI's code.
int hand_out(std::shared_ptr<progress::Operation> operation, MPI_Request* request);

// Creates an inactive persistent request; `start` starts the operation each time the request is started (and returns
// nullptr, with MPI's code of an error that has been raised, when it cannot). Not called under the lock.
using Starter = std::function<std::shared_ptr<progress::Operation>(int& code)>;
int hand_out_persistent(CallId call, MPI_Comm comm, Starter start, MPI_Request* request);

// A watched receive: a receive of MPI's own into host memory, in which an envelope may arrive. It is noted where the
// first bytes are until it completes. `layout` is null for a predefined type. Watching is lock-free for a handle that
// MPI has used before.
struct HostReceive {
    void* address = nullptr;
    std::size_t count = 0;
    std::size_t bytes = 0;  // capacity
    std::shared_ptr<const datatype::Layout> layout;
    // The first byte of a receive that may be of a large message: a buffer that it waits in (receive_buffers.hpp) until
    // it is over. Null for a smaller receive.
    const void* buffer = nullptr;
    MPI_Comm comm = MPI_COMM_NULL;
    CallId call{};
};
void watch(MPI_Request request, HostReceive&& receive);

// The same for a persistent receive. `start` starts MPI's request, or returns the operation that receives in its place,
// for a message that a probe has taken from MPI. `code` is MPI's; an error has been raised.
using HostStarter = std::function<std::shared_ptr<progress::Operation>(MPI_Request* request, int& code)>;
void watch_persistent(MPI_Request request, HostReceive&& receive, HostStarter start);

// Set at MPI_Init where one thread at a time calls MPI. The table of requests then needs no instruction that locks
// memory.
[[gnu::visibility("hidden")]] extern bool one_thread;

// p2p's part in watched receives. Called under the engine's lock; p2p sets them.
//
// envelope_arrived() checks a receive that has completed with as many bytes as an envelope has, and answers the
// envelope. Returns the operation that goes on with its message, or has found it too long for the receive; nullptr for
// an ordinary message. Called once, unless it has returned nullptr.
using Arrived = std::shared_ptr<progress::Operation> (*)(HostReceive& receive, const MPI_Status& status);
extern Arrived envelope_arrived;
// shows_envelope() tells whether the memory of a receive that is pending may hold an envelope. Asks MPI nothing.
using Shows = bool (*)(const HostReceive& receive);
extern Shows shows_envelope;
// go_on() returns an operation that owns the request of a receive that the program has freed while it was pending: its
// message may be a large one.
using GoOn = std::shared_ptr<progress::Operation> (*)(HostReceive& receive, MPI_Request request);
extern GoOn go_on;

// Tells whether a completed receive has as many bytes as an envelope.
inline bool may_hold_envelope(const MPI_Status& status) {
    return status._ucount == call::kEnvelopeBytes && status._cancelled == 0 && envelope_arrived != nullptr;
}

// A service of the engine, for processes in which only one thread calls MPI: it answers an envelope that has arrived in
// a watched receive although the program has yet to complete the receive. The program may be in another call that waits
// for what the envelope's sender does next.
bool answer_watched();

// The same for all of them, for a receive that cannot tell which message it has had: those that can have to name theirs
// first. Called under the engine's lock, not in a step of an operation.
void answer_all_watched();

// Called before MPI_Finalize.
void release_handles();

}  // namespace swy::request
