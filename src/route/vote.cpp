#include "route/vote.hpp"

#include "carrier/nccl/communicator.hpp"
#include "datatype/element.hpp"
#include "settings/settings.hpp"

namespace swy::route {
namespace {

// A rank that passes nothing joins with the device that the communicator has for it, or with the program's current one.
device::Location without_data(const comm::State& comm) {
    const auto& nccl = comm.coming != nullptr ? comm.coming : comm.nccl;
    if (nccl == nullptr || !nccl->usable() || !nccl->lane().alive())
        return device::current_device();
    device::Location location;
    location.ordinal = comm.ordinal;
    location.context = nccl->context();
    return location;
}

}  // namespace

Reason reason_to_stay_local(const Call& call, const comm::State& comm) {
    if (comm.inter)
        return Reason::kIntercomm;
    if (comm.foreign)
        return Reason::kForeign;
    if (comm.size == 1)
        return Reason::kOneRank;
    if (!settings::values().nccl)
        return Reason::kNcclOff;
    if (rooted(call) && (call.root < 0 || call.root >= comm.size))
        return Reason::kNotBuilt;  // an error of the program's, which MPI reports
    return Reason::kNone;
}

Vote vote_of(const Call& call, const comm::State& comm, Presence presence, const UnderWay& under_way,
             std::optional<carrier::nccl::Work>& into) {
    Vote vote;
    describe(call, vote);
    vote.device = presence == Presence::kData;
    vote.host = any_on_host(call, presence);
    vote.in_flight = under_way.wants_turn();
    if (!vote.host) {
        carrier::nccl::Work& work = into.emplace();
        vote.obstacle = carrier::nccl::prepare(call, comm.rank, comm.size, work);
        if (!vote.device)
            work.location = without_data(comm);
        if (vote.obstacle == Reason::kNone && work.location.ordinal < 0)
            vote.obstacle = Reason::kMixed;
        if (vote.obstacle == Reason::kNone && under_way.must_be_staged() && !trusts(call.id))
            vote.obstacle = Reason::kThreads;
        if (vote.obstacle == Reason::kNone && comm.under_way())
            vote.obstacle = Reason::kNotReady;
        if (vote.obstacle == Reason::kNone)
            vote.setup = comm.setup_for(work.location.ordinal);
    }
    return vote;
}

bool all_can(const Call& call, const Verdict& verdict) {
    const bool enough = verdict.large || !size_is_unknown(call.id);
    return enough && verdict.any_device && !verdict.any_host && verdict.obstacle == Reason::kNone;
}

Route route_from(const Call& call, const Verdict& verdict, Reason obstacle) {
    if (!verdict.any_device)
        return {};
    if (size_is_unknown(call.id) && !verdict.large)
        return {Carrier::kStaged, Reason::kSmall};
    if (verdict.any_host)
        return {Carrier::kStaged, Reason::kMixed};
    const Reason why = verdict.obstacle != Reason::kNone ? verdict.obstacle : obstacle;
    return why != Reason::kNone ? Route{Carrier::kStaged, why} : Route{Carrier::kNccl, Reason::kNone};
}

}  // namespace swy::route
