#include "coll/vote.hpp"

#include "call/job.hpp"
#include "datatype/element.hpp"
#include "nccl/communicator.hpp"
#include "settings/settings.hpp"

namespace swy::coll {
namespace {

bool nccl_is_off() {
    return settings::values().nccl == settings::Nccl::kNo;
}

// Returns the device with which a rank joins of which NCCL moves nothing: the one that the communicator has for it, or
// the program's current one.
device::Location without_data(const comm::State& comm) {
    const auto& nccl = comm.nccl;
    if (nccl == nullptr || !nccl->usable() || !nccl->device_stream().alive())
        return device::current_device();
    device::Location location;
    location.ordinal = comm.ordinal;
    location.context = nccl->context();
    return location;
}

}  // namespace

Reason reason_to_stay_local(const Call& call, const comm::State& comm) {
    if (comm.inter && comm.merged == MPI_COMM_NULL)
        return comm.spans_jobs ? Reason::kSpansJobs : Reason::kIntercomm;
    if (comm.spans_jobs)
        return Reason::kSpansJobs;
    if (comm.size == 1 && !comm.inter)
        return Reason::kOneRank;
    if (nccl_is_off() && !call::limited)
        return Reason::kNcclOff;
    if (!comm.inter && rooted(call) && (call.root < 0 || call.root >= comm.size))
        return Reason::kInvalid;  // an error of the program's, which MPI reports
    return Reason::kNone;
}

Vote vote_of(const Call& call, const comm::State& comm, Presence presence, const ConcurrentCollectives& under_way,
             std::optional<nccl::Work>& into) {
    Vote vote;
    describe(call, vote);
    vote.device = presence == Presence::kData;
    vote.host = any_on_host(call, presence);
    vote.in_flight = under_way.wants_turn();
    if (!vote.host) {
        nccl::Work& work = into.emplace();
        vote.obstacle = nccl_is_off() ? Reason::kNcclOff : nccl::prepare(call, comm.rank, comm.size, work);
        if (!vote.device || work.location.ordinal < 0)  // NCCL moves nothing of this rank's
            work.location = without_data(comm);
        if (vote.obstacle == Reason::kNone && work.location.ordinal < 0)
            vote.obstacle = Reason::kMixed;
        if (vote.obstacle == Reason::kNone && under_way.must_be_staged())
            vote.obstacle = Reason::kThreads;
        if (vote.obstacle == Reason::kNone && comm.nccl_failed() && settings::stages_after_failure())
            vote.obstacle = Reason::kNcclFailed;
        vote.needs_setup = vote.obstacle == Reason::kNone && comm.needs_setup(work.location.ordinal);
        if (vote.obstacle == Reason::kNone && !vote.needs_setup)
            vote.obstacle = comm.obstacle;
    }
    vote.setups = comm.setups_ended;
    return vote;
}

bool all_can(const Decision& decision) {
    const bool obstacle = decision.obstacle != Reason::kNone && decision.obstacle != Reason::kNotReady;
    return decision.large && decision.any_device && !decision.any_host && !obstacle;
}

Route route_from(const Decision& decision, Reason obstacle) {
    if (!decision.any_device)
        return {};
    if (!decision.large)
        return {Carrier::kStaged, Reason::kSmall};
    if (decision.any_host)
        return {Carrier::kStaged, Reason::kMixed};
    const Reason why = decision.obstacle != Reason::kNone ? decision.obstacle : obstacle;
    return why != Reason::kNone ? Route{Carrier::kStaged, why} : Route{Carrier::kNccl, Reason::kNone};
}

}  // namespace swy::coll
