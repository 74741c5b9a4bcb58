// Collectives that agree without blocking: those that leave a request, and blocking ones that are launched in turn with
// them.
#pragma once

#include <string>

#include "carrier/nccl/collectives.hpp"
#include "comm/state.hpp"
#include "route/call.hpp"
#include "route/vote.hpp"

namespace swy::route {

// Begins the agreement in the call's place among the communicator's collectives, and leaves a request: of what NCCL
// does, or of the real call on other memory and another communicator. The communicator has an order (comm/order.hpp).
// MPI's code. Throws std::bad_alloc.
int begin_agreed(const Call& call, comm::State& comm, Presence presence);

// Launches a blocking collective that all ranks have agreed on in its turn, and completes it. "" or what went wrong.
std::string run_in_turn(const Call& call, comm::State& comm, const Fingerprint& print, carrier::nccl::Work work);

// After a mismatch in which some ranks have made calls that do not block: who called what.
std::string describe_with_begun(const Call& call, comm::State& comm, const Fingerprint& print);

}  // namespace swy::route
