#include "config.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <new>

#include "carrier/nccl/collectives.hpp"
#include "carrier/staged/average.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/establish.hpp"
#include "comm/state.hpp"
#include "datatype/element.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "p2p/lanes.hpp"
#include "p2p/point_to_point.hpp"
#include "real.hpp"
#include "report/report.hpp"
#include "request/engine.hpp"
#include "route/agreement.hpp"
#include "route/depth.hpp"
#include "route/gate.hpp"
#include "route/job.hpp"
#include "route/operands.hpp"
#include "route/route.hpp"
#include "settings/settings.hpp"

namespace swy::route {

constinit thread_local int depth = 0;
bool job_agrees = false;
std::size_t threshold = 0;

bool inside() {
    return depth != 0;
}

namespace {

// A route that has been settled for one call.
struct Route {
    Carrier carrier = Carrier::kHost;
    Reason reason = Reason::kNone;
};

int run_host(const Call& call, Real real) {
    const Inside guard;
    return real(call);
}

int run_staged(const Call& call, Real real) {
    if (settings::values().cuda_aware_mpi && !datatype::averages(call.op))
        return run_host(call, real);
    const Inside guard;
    return carrier::staged::run(call, real);
}

// Times and counts a call when there is a report; otherwise this is the call alone.
template <typename Run>
int reported(const Call& call, Route route, Run run) {
    if (!report::enabled) [[likely]]
        return run();
    const auto start = std::chrono::steady_clock::now();
    const int rc = run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    report::add(call.id, route.carrier, route.reason, payload_bytes(call), took.count());
    return rc;
}

int host(const Call& call, Real real) {
    if (!report::enabled) [[likely]]
        return run_host(call, real);
    return reported(call, {}, [&] { return run_host(call, real); });
}

// A route that this rank may settle alone: Open MPI carries the call for every rank, so what a peer does makes no
// difference.
int local(const Call& call, Real real, Presence presence, Reason reason) {
    if (presence == Presence::kNothing)
        return host(call, real);
    return reported(call, {Carrier::kStaged, reason}, [&] { return run_staged(call, real); });
}

int refused(const Call& call, Real real) {
    const Presence presence = on_device(call);
    if (presence != Presence::kData)
        return local(call, real, presence, Reason::kNotBuilt);
    return error::raise(
        call, MPI_ERR_BUFFER,
        fmt::format("{}: a buffer is device memory, and this call is not yet on device memory in Switchyard {}: use a "
                    "blocking form, or copy to host memory first",
                    name(call.id), PACKAGE_VERSION));
}

// A call that leaves a request. Whether a rank stages its buffers or has none on a device, it makes the same real call.
int begun(const Call& call, Real real) {
    const Presence presence = on_device(call);
    const bool averages = datatype::averages(call.op);
    if (!averages && (presence != Presence::kData || settings::values().cuda_aware_mpi))
        return local(call, real, presence, Reason::kNotBuilt);
    if (!request::engine_runs())
        return refused(call, real);
    const Inside guard;
    return carrier::staged::begin(call, real, Reason::kNotBuilt, payload_bytes(call));
}

int failed(const Call& call, const comm::State& comm, const std::string& why) {
    std::array<char, MPI_MAX_OBJECT_NAME> comm_name{};
    int length = 0;
    real::Comm_get_name(comm.handle, comm_name.data(), &length);
    return error::raise(call, MPI_ERR_OTHER,
                        fmt::format("{} on rank {} of {} ({} ranks): {}", name(call.id), comm.rank,
                                    length > 0 ? comm_name.data() : "a communicator without name", comm.size, why));
}

// Why a collective needs no agreement: the reason is the same on all ranks, or it does not matter that it is not.
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

// A rank that passes nothing joins with the device that the communicator has for it, or with the program's current one.
device::Location without_data(const comm::State& comm) {
    if (comm.nccl == nullptr || !comm.nccl->usable() || !comm.nccl->lane().alive())
        return device::current_device();
    device::Location location;
    location.ordinal = comm.ordinal;
    location.context = comm.nccl->context();
    return location;
}

Vote vote_of(const Call& call, const comm::State& comm, Presence presence, carrier::nccl::Work& work) {
    Vote vote;
    vote.bytes = message_bytes(call);
    vote.op = static_cast<std::uint8_t>(datatype::operator_of(call.op));
    if (call.op != MPI_OP_NULL)
        vote.element = static_cast<std::uint8_t>(datatype::element_of(call.operands.back().type).element);
    vote.device = presence == Presence::kData;
    vote.host = any_on_host(call);
    vote.large = size_is_unknown(call.id) && payload_bytes(call) >= threshold;
    if (!vote.host) {
        vote.obstacle = carrier::nccl::prepare(call, comm.rank, comm.size, work);
        if (!vote.device)
            work.location = without_data(comm);
        if (vote.obstacle == Reason::kNone && work.location.ordinal < 0)
            vote.obstacle = Reason::kMixed;
        vote.setup = vote.obstacle == Reason::kNone && comm.needs_setup(work.location.ordinal);
    }
    return vote;
}

// The route that all ranks take, from what all ranks know.
Route route_from(const Call& call, const Verdict& verdict, const comm::State& comm) {
    if (!verdict.any_device)
        return {};
    if (size_is_unknown(call.id) && !verdict.large)
        return {Carrier::kStaged, Reason::kSmall};
    if (verdict.any_host)
        return {Carrier::kStaged, Reason::kMixed};
    const Reason obstacle = verdict.obstacle != Reason::kNone ? verdict.obstacle : comm.obstacle;
    return obstacle != Reason::kNone ? Route{Carrier::kStaged, obstacle} : Route{Carrier::kNccl, Reason::kNone};
}

int agreed(const Call& call, Real real, comm::State& comm, Presence presence) {
    const p2p::lanes::Collective collective(comm);
    carrier::nccl::Work work;
    const Vote vote = vote_of(call, comm, presence, work);
    const Verdict verdict = agree(call, comm, vote);
    switch (verdict.state) {
        case Verdict::State::kMpiError:
            return verdict.mpi_code;
        case Verdict::State::kTimeout:
            return failed(call, comm,
                          "SWITCHYARD_TIMEOUT has passed before all ranks of the communicator entered the call");
        case Verdict::State::kMismatch:
            return failed(call, comm, "the ranks' calls do not match: " + describe_mismatch(call, comm, vote));
        case Verdict::State::kSettled:
            break;
    }
    const bool enough = verdict.large || !size_is_unknown(call.id);
    const bool all_can = enough && verdict.any_device && !verdict.any_host && verdict.obstacle == Reason::kNone;
    if (all_can && verdict.setup)
        if (const int rc = comm::establish(comm, work.location); rc != MPI_SUCCESS)
            return rc;
    const Route route = route_from(call, verdict, comm);
    if (route.carrier != Carrier::kNccl)
        return local(call, real, presence, route.reason);
    return reported(call, route, [&] {
        const std::string failure = carrier::nccl::run(work, *comm.nccl);
        return failure.empty() ? MPI_SUCCESS : failed(call, comm, failure);
    });
}

int routed(const Call& call, Real real) {
    const Presence presence = on_device(call);
    if (!job_agrees || call.owner.comm == MPI_COMM_NULL)
        return local(call, real, presence, Reason::kForeign);
    if (!size_is_unknown(call.id) && under_threshold(call))
        return local(call, real, presence, Reason::kSmall);
    comm::State* comm = comm::of(call.owner.comm);
    if (comm == nullptr)
        return local(call, real, presence, Reason::kNoMemory);
    const Reason alone = reason_to_stay_local(call, *comm);
    if (alone != Reason::kNone)
        return local(call, real, presence, alone);
    const Inside guard;
    return agreed(call, real, *comm, presence);
}

int matched(const Call& call, Real real) {
    const Inside guard;
    return p2p::take(call, real);
}

// A call that MPI makes itself, or the program from a callback inside MPI: nothing can be agreed on, and nobody comes
// back to complete what does not block.
int inside_mpi(const Call& call, Real real) {
    const bool can_be_staged = blocking(call.id) || call.operands.empty();
    return can_be_staged ? local(call, real, on_device(call), Reason::kInsideMpi) : refused(call, real);
}

int take_any(const Call& call, Real real) {
    if (gate::changed()) [[unlikely]]
        gate::refresh();
    if (depth != 0) [[unlikely]]
        return inside_mpi(call, real);
    switch (treatment(call.id)) {
        case Treatment::kRouted:
            return routed(call, real);
        case Treatment::kMatched:
            return matched(call, real);
        case Treatment::kStaged:
            return blocking(call.id) || call.request == nullptr ? local(call, real, on_device(call), Reason::kNotBuilt)
                                                                : begun(call, real);
        default:
            return refused(call, real);
    }
}

// MPI makes a sum of it (the door has seen to that), which is divided when it is there.
int averaging(const Call& call, Real real) {
    const auto divided = [&call, real](const Operand* use) {
        const int rc = real(use);
        if (rc == MPI_SUCCESS)
            carrier::staged::Average(call, use).divide();
        return rc;
    };
    return take_any(call, divided);
}

int take_or_throw(const Call& call, Real real) {
    if (!datatype::averages(call.op)) [[likely]]
        return take_any(call, real);
    if (blocking(call.id))
        return averaging(call, real);
    if (depth == 0 && request::engine_runs())
        return take_any(call, real);
    return error::raise(call, MPI_ERR_OP,
                        fmt::format("{}: MPIX_AVG needs Switchyard's engine, which does not run here: use a blocking "
                                    "form",
                                    name(call.id)));
}

}  // namespace

int take(const Call& call, Real real) {
    try {
        return take_or_throw(call, real);
    } catch (const std::bad_alloc&) {
        return error::raise(call, MPI_ERR_NO_MEM,
                            fmt::format("{}: no host memory left for the routing of a device buffer", name(call.id)));
    }
}

}  // namespace swy::route
