// What a rank brings to the agreement on a collective, and the route that follows from what all brought.
#pragma once

#include <optional>

#include "carrier/nccl/collectives.hpp"
#include "comm/state.hpp"
#include "route/agreement.hpp"
#include "route/call.hpp"
#include "route/operands.hpp"
#include "route/reason.hpp"
#include "route/under_way.hpp"

namespace swy::route {

// A route that has been settled for one call.
struct Route {
    Carrier carrier = Carrier::kHost;
    Reason reason = Reason::kNone;
};

// Why a collective needs no agreement: the reason is the same on all ranks, or it does not matter that it is not.
Reason reason_to_stay_local(const Call& call, const comm::State& comm);

// All local tests. `work` becomes this rank's part on NCCL where it has no host memory in the call; it is complete
// where there is no obstacle. Throws std::bad_alloc.
Vote vote_of(const Call& call, const comm::State& comm, Presence presence, const UnderWay& under_way,
             std::optional<carrier::nccl::Work>& work);

// Could it go over NCCL, once the communicator has one? And the route that all ranks take. The same on every rank.
bool all_can(const Call& call, const Verdict& verdict);
Route route_from(const Call& call, const Verdict& verdict, Reason obstacle);

}  // namespace swy::route
