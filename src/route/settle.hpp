// The agreement on a call that waits for it, and the set-up of its communicator that follows. The router's.
#pragma once

#include <optional>
#include <string>

#include "carrier/nccl/collectives.hpp"
#include "comm/state.hpp"
#include "route/agreement.hpp"
#include "route/call.hpp"
#include "route/operands.hpp"
#include "route/under_way.hpp"
#include "route/vote.hpp"

namespace swy::route {

struct Settled {
    Route route;
    bool soon = false;                        // it is staged, and it could be NCCL's some time later
    bool in_flight = false;                   // some rank has collectives that do not block under way
    Fingerprint print;                        // of the call
    std::optional<carrier::nccl::Work> work;  // this rank's part on NCCL, with the route kNccl
};

// Settles the route with the other ranks, and sees to what the communicator needs for it: memory that its ranks share,
// an NCCL communicator, an order. Collective; waits, with MPI's progress. MPI's code, of an error that has been raised.
// Where the route is NCCL, or will be soon, the communicator has an order if it can have one.
int settle(const Call& call, comm::State& comm, Presence presence, const UnderWay& under_way, Settled& into);

// Raises an error of the call with its name, the rank and the communicator before the text.
int failed(const Call& call, const comm::State& comm, const std::string& why);

}  // namespace swy::route
