// Collectives that agree without blocking: those that leave a request, and blocking ones that are launched in launch
// order with them.
#pragma once

#include <string>

#include "call/call.hpp"
#include "coll/vote.hpp"
#include "comm/state.hpp"
#include "nccl/collectives.hpp"

namespace swy::coll {

// Starts the agreement in the call's place among the communicator's collectives, and leaves a request: for the
// operation on NCCL, or for the real call on host memory and the private communicator. The communicator has a launch
// order (comm/launch_order.hpp). Returns MPI's code. Throws std::bad_alloc.
int start_agreed(const Call& call, comm::State& comm, Presence presence);

// Launches, in launch order, a blocking collective that all ranks have agreed on, and waits for its end. Returns "" or
// what went wrong.
std::string run_ordered(const Call& call, comm::State& comm, const Fingerprint& print, nccl::Work work);

// After a mismatch in which some ranks have made non-blocking calls: returns which rank called what.
std::string describe_with_nonblocking(const Call& call, comm::State& comm, const Fingerprint& print);

}  // namespace swy::coll
