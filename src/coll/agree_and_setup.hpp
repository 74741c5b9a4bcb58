// The agreement on a call that waits for it, and the set-up of its communicator that follows. For src/dispatch and
// persistent collectives.
#pragma once

#include <optional>
#include <string>

#include "call/call.hpp"
#include "coll/concurrent_collectives.hpp"
#include "coll/operands.hpp"
#include "coll/vote.hpp"
#include "comm/state.hpp"
#include "nccl/collectives.hpp"

namespace swy::coll {

struct AgreedRoute {
    Route route;
    bool soon = false;               // it is staged, and might use NCCL some time later
    bool in_flight = false;          // some rank has non-blocking collectives under way
    Fingerprint print;               // of the call
    std::optional<nccl::Work> work;  // this rank's part on NCCL, with the route kNccl
};

// Agrees on the route with the other ranks, and sets up what the communicator needs for it: a shared page, an NCCL
// communicator, a launch order. Collective; waits, with MPI's progress. Returns MPI's code, of an error that has been
// raised. Where the route is NCCL, or will be soon, the communicator has a launch order if it can have one.
int agree_and_setup(const Call& call, comm::State& comm, Presence presence, const ConcurrentCollectives& under_way,
                    AgreedRoute& into);

// Describes the call for SWITCHYARD_STALL: its name, the rank, the communicator and the bytes.
std::string in_words(const Call& call, const comm::State& comm);

// Raises an error of the call with its name, the rank and the communicator before the text.
int failed(const Call& call, const comm::State& comm, const std::string& why);

}  // namespace swy::coll
