#include "config.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <new>
#include <optional>

#include "carrier/nccl/collectives.hpp"
#include "carrier/peer/reduce.hpp"
#include "carrier/staged/average.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/establish.hpp"
#include "comm/order.hpp"
#include "comm/state.hpp"
#include "datatype/element.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "p2p/lanes.hpp"
#include "p2p/point_to_point.hpp"
#include "real.hpp"
#include "report/report.hpp"
#include "report/trace.hpp"
#include "request/engine.hpp"
#include "route/agreement.hpp"
#include "route/begun.hpp"
#include "route/depth.hpp"
#include "route/gate.hpp"
#include "route/job.hpp"
#include "route/operands.hpp"
#include "route/repeat.hpp"
#include "route/route.hpp"
#include "route/vote.hpp"
#include "settings/settings.hpp"

namespace swy::route {

constinit thread_local int depth = 0;
bool job_agrees = false;
std::size_t threshold = 0;

bool inside() {
    return depth != 0;
}

namespace {

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
int reported(const Call& call, Route route, Run run, const report::Time* since = nullptr) {
    if (!report::enabled) [[likely]]
        return run();
    const report::Time start = since != nullptr ? *since : std::chrono::steady_clock::now();
    const int rc = run();
    report::tell_call(call.id, route.carrier, route.reason, payload_bytes(call), start);
    return rc;
}

int host(const Call& call, Real real, const report::Time* since = nullptr) {
    if (!report::enabled) [[likely]]
        return run_host(call, real);
    return reported(
        call, {}, [&] { return run_host(call, real); }, since);
}

// A route that this rank may settle alone: Open MPI carries the call for every rank, so what a peer does makes no
// difference.
int local(const Call& call, Real real, Presence presence, Reason reason, const report::Time* since = nullptr) {
    if (presence == Presence::kNothing)
        return host(call, real, since);
    return reported(
        call, {Carrier::kStaged, reason}, [&] { return run_staged(call, real); }, since);
}

// MPI_Reduce_local: no other process has a part in it.
int alone(const Call& call, Real real) {
    const Presence presence = on_device(call);
    if (presence != Presence::kData)
        return local(call, real, presence, Reason::kNone);
    carrier::peer::Reducing reducing;
    if (const Reason why = carrier::peer::prepare(call, reducing); why != Reason::kNone)
        return local(call, real, presence, why);
    return reported(call, {Carrier::kPeer, Reason::kNone}, [&] {
        const Inside guard;
        const std::string failure = carrier::peer::run(reducing);
        return failure.empty() ? MPI_SUCCESS
                               : error::raise(call, MPI_ERR_OTHER, fmt::format("{}: {}", name(call.id), failure));
    });
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
int begun(const Call& call, Real real, Presence presence, Reason reason) {
    const bool averages = datatype::averages(call.op);
    if (!averages && (presence != Presence::kData || settings::values().cuda_aware_mpi))
        return local(call, real, presence, reason);
    if (!request::engine_runs())
        return refused(call, real);
    const Inside guard;
    return carrier::staged::begin(call, real, reason, payload_bytes(call));
}

int failed(const Call& call, const comm::State& comm, const std::string& why) {
    std::array<char, MPI_MAX_OBJECT_NAME> comm_name{};
    int length = 0;
    real::Comm_get_name(comm.handle, comm_name.data(), &length);
    return error::raise(call, MPI_ERR_OTHER,
                        fmt::format("{} on rank {} of {} ({} ranks): {}", name(call.id), comm.rank,
                                    length > 0 ? comm_name.data() : "a communicator without name", comm.size, why));
}

// With trust there are no calls that would need an order. Where none may be made, calls that do not block are staged.
int make_order(const Call& call, comm::State& comm) {
    return comm.order != nullptr || comm.duplicated || trusts(call.id) ? MPI_SUCCESS : comm::Order::make(comm);
}

int set_up(const Call& call, const Verdict& verdict, comm::State& comm,
           const std::optional<carrier::nccl::Work>& work) {
    // On all ranks, whatever becomes of this call; but those with host memory need not know what the others have found.
    if (verdict.setup == comm::Setup::kMake && !verdict.any_host)
        comm::drop_coming(comm);
    if (!all_can(call, verdict) || verdict.setup == comm::Setup::kNone)
        return MPI_SUCCESS;
    const report::trace::Part part("NCCL communicator");
    if (verdict.setup == comm::Setup::kMake)
        return comm::establish(comm, work->location);
    comm::take_up_coming(comm);
    return MPI_SUCCESS;
}

// Asks the ranks where the agreement has not told it.
std::string mismatch_in_words(const Call& call, comm::State& comm, const Verdict& verdict, const Fingerprint& print) {
    if (!verdict.mismatch.empty())
        return verdict.mismatch;
    return verdict.begun ? describe_with_begun(call, comm, print) : describe_mismatch(comm, print);
}

// A rank that tells the others of its host memory and need not hear from them.
int told(const Call& call, Real real, comm::State& comm, const Vote& vote) {
    const Inside guard;
    const Verdict verdict = tell_host(call, comm, vote);
    if (verdict.state == Verdict::State::kSettled) [[likely]]
        return host(call, real);
    return failed(call, comm, verdict.state == Verdict::State::kTimeout ? kNotAllCame : verdict.mismatch);
}

int told(const Call& call, Real real, comm::State& comm) {
    Vote vote;
    vote.host = true;
    describe(call, vote);
    if (Repeat::possible(call) && comm.repeat != nullptr)
        *comm.repeat = Repeat(call, vote);
    else if (Repeat::possible(call))
        comm.repeat = std::make_shared<Repeat>(call, vote);
    return told(call, real, comm, vote);
}

bool tells_again(const Call& call, comm::State* comm) {
    return comm != nullptr && comm->repeat != nullptr && has_board(*comm) && comm->repeat->is(call);
}

int agreed(const Call& call, Real real, comm::State& comm, Presence presence) {
    const Inside guard;
    comm.repeat.reset();  // the set-up may bring another threshold
    const report::Time since = report::enabled ? std::chrono::steady_clock::now() : report::Time();
    const p2p::lanes::Collective collective(comm);
    const UnderWay under_way(UnderWay::Kind::kBlocking);
    std::optional<carrier::nccl::Work> work;
    Fingerprint print;
    const Verdict verdict = agree(call, comm, vote_of(call, comm, presence, under_way, work), print);
    switch (verdict.state) {
        case Verdict::State::kMpiError:
            return verdict.mpi_code;
        case Verdict::State::kTimeout:
            return failed(call, comm, kNotAllCame);
        case Verdict::State::kMismatch:
            return failed(call, comm, mismatch_in_words(call, comm, verdict, print));
        case Verdict::State::kSettled:
            break;
    }
    if (const int rc = share_board(comm, print); rc != MPI_SUCCESS)
        return rc;
    if (const int rc = set_up(call, verdict, comm, work); rc != MPI_SUCCESS)
        return rc;
    const Route route = route_from(call, verdict, comm.obstacle);
    // Where NCCL is still at work on a communicator, calls that do not block agree already: made on the program's own
    // communicator they would not survive its MPI_Comm_free, which Open MPI does not hold back for them.
    const bool soon = route.reason == Reason::kNotReady && !verdict.any_host;
    if (route.carrier == Carrier::kNccl || soon)
        if (const int rc = make_order(call, comm); rc != MPI_SUCCESS)
            return rc;
    if (route.carrier != Carrier::kNccl)
        return local(call, real, presence, route.reason, &since);
    if (verdict.in_flight && comm.order == nullptr)
        return local(call, real, presence, Reason::kNoMemory, &since);
    const auto run = [&] {
        const std::string failure = verdict.in_flight ? run_in_turn(call, comm, print, std::move(*work))
                                                      : carrier::nccl::run(*work, *comm.nccl);
        return failure.empty() ? MPI_SUCCESS : failed(call, comm, failure);
    };
    return reported(call, route, run, &since);
}

// Why this rank may settle the route alone, as all others do; kNone: it must not. `comm` is the communicator's state.
Reason reason_to_settle_alone(const Call& call, comm::State*& comm) {
    if (!job_agrees || call.owner.comm == MPI_COMM_NULL)
        return Reason::kForeign;
    if (!size_is_unknown(call.id) && under_threshold(call))
        return Reason::kSmall;
    comm = comm::of(call.owner.comm);
    return comm == nullptr ? Reason::kNoMemory : reason_to_stay_local(call, *comm);
}

int routed(const Call& call, Real real) {
    const Presence presence = on_device(call);
    comm::State* comm = job_agrees && presence == Presence::kNothing ? comm::lately_used(call.owner.comm) : nullptr;
    if (tells_again(call, comm))
        return told(call, real, *comm, comm->repeat->vote());
    if (const Reason alone = reason_to_settle_alone(call, comm); alone != Reason::kNone)
        return local(call, real, presence, alone);
    if (presence == Presence::kNothing && has_board(*comm) && has_plain_data(call))
        return told(call, real, *comm);
    return agreed(call, real, *comm, presence);
}

// A program's own operator cannot be kept for later, and is the same on all ranks. With trust in place of agreements
// nobody would know when all ranks have made the call, before which it must not be launched.
int begun_routed(const Call& call, Real real) {
    const Presence presence = on_device(call);
    comm::State* comm = nullptr;
    Reason alone = reason_to_settle_alone(call, comm);
    if (alone == Reason::kNone && datatype::operator_of(call.op) == datatype::Operator::kUser)
        alone = Reason::kOperator;
    if (alone == Reason::kNone && settings::values().agree == settings::Agree::kTrust)
        alone = Reason::kNotBuilt;
    if (alone == Reason::kNone && (comm->order == nullptr || !request::engine_runs()))
        alone = Reason::kNotReady;
    if (alone != Reason::kNone)
        return begun(call, real, presence, alone);
    const Inside guard;
    return begin_agreed(call, *comm, presence);
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
            return blocking(call.id) ? routed(call, real) : begun_routed(call, real);
        case Treatment::kMatched:
            return matched(call, real);
        case Treatment::kStaged:
            if (plain(call.id) == CallId::kReduceLocal)
                return alone(call, real);
            return blocking(call.id) || call.request == nullptr ? local(call, real, on_device(call), Reason::kNotBuilt)
                                                                : begun(call, real, on_device(call), Reason::kNotBuilt);
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
