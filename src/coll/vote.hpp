// What a rank brings to the agreement on a collective, and the route that follows from the votes of all ranks.
#pragma once

#include <optional>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "coll/concurrent_collectives.hpp"
#include "coll/operands.hpp"
#include "coll/vote_record.hpp"
#include "comm/state.hpp"
#include "nccl/collectives.hpp"

namespace swy::coll {

// The route that has been agreed on for one call.
struct Route {
    Carrier carrier = Carrier::kHost;
    Reason reason = Reason::kNone;
};

// Returns why a collective needs no agreement, or kNone: the reason is the same on all ranks, or it does not matter
// that it is not.
Reason reason_to_stay_local(const Call& call, const comm::State& comm);

// Makes all local tests. `work` becomes this rank's part on NCCL where it has no host memory in the call; it is
// complete where there is no obstacle. Throws std::bad_alloc.
Vote vote_of(const Call& call, const comm::State& comm, Presence presence, const ConcurrentCollectives& under_way,
             std::optional<nccl::Work>& work);

// all_can(): could the call use NCCL, once the communicator has an NCCL communicator? route_from(): the route that all
// ranks take, where `obstacle` is what a set-up after the votes has found. Both are the same on every rank.
bool all_can(const Decision& decision);
Route route_from(const Decision& decision, Reason obstacle = Reason::kNone);

}  // namespace swy::coll
