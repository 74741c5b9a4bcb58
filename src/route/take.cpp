#include "config.h"

#include <fmt/format.h>

#include <algorithm>
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
#include "device/device.hpp"
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
#include "route/persistent.hpp"
#include "route/repeat.hpp"
#include "route/route.hpp"
#include "route/settle.hpp"
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

// A rank that tells the others of its host memory and need not hear from them.
int told(const Call& call, Real real, comm::State& comm, const comm::Board::Words& words) {
    const Inside guard;
    const Verdict verdict = tell_host(comm, words);
    if (verdict.state == Verdict::State::kSettled) [[likely]]
        return host(call, real);
    return failed(call, comm, verdict.problem);
}

int told(const Call& call, Real real, comm::State& comm) {
    Vote vote;
    vote.host = true;
    describe(call, vote);
    if (Repeat::possible(call) && comm.repeat != nullptr)
        *comm.repeat = Repeat(call, vote);
    else if (Repeat::possible(call))
        comm.repeat = std::make_shared<Repeat>(call, vote);
    return told(call, real, comm, host_words(call, vote));
}

// The last call again, which was one on host memory, and is.
bool tells_again(const Call& call, comm::State* comm) {
    return comm != nullptr && comm->repeat != nullptr && has_board(*comm) && comm->repeat->is(call) &&
           std::none_of(call.operands.begin(), call.operands.end(),
                        [](const Operand& operand) { return device::on_device(operand.address); });
}

int agreed(const Call& call, Real real, comm::State& comm, Presence presence) {
    const Inside guard;
    const report::Time since = report::enabled ? std::chrono::steady_clock::now() : report::Time();
    const p2p::lanes::Collective collective(comm);
    const UnderWay under_way(UnderWay::Kind::kBlocking);
    Settled settled;
    if (const int rc = settle(call, comm, presence, under_way, settled); rc != MPI_SUCCESS)
        return rc;
    const Route route = settled.route;
    if (route.carrier != Carrier::kNccl)
        return local(call, real, presence, route.reason, &since);
    if (settled.in_flight && comm.order == nullptr)
        return local(call, real, presence, Reason::kNoMemory, &since);
    const auto run = [&] {
        const std::string failure = settled.in_flight ? run_in_turn(call, comm, settled.print, std::move(*settled.work))
                                                      : carrier::nccl::run(*settled.work, *comm.nccl);
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
    comm::State* comm = job_agrees ? comm::lately_used(call.owner.comm) : nullptr;
    if (tells_again(call, comm)) [[likely]]
        return told(call, real, *comm, comm->repeat->words());
    const Presence presence = on_device(call);
    if (const Reason alone = reason_to_settle_alone(call, comm); alone != Reason::kNone)
        return local(call, real, presence, alone);
    if (presence == Presence::kNothing && has_board(*comm) && has_plain_data(call))
        return told(call, real, *comm);
    return agreed(call, real, *comm, presence);
}

// What comes is not known when a persistent call is made, so it agrees then, and waits for that as MPI allows; each
// start agrees again. Where NCCL could not carry it, it is settled for good.
int made_persistent(const Call& call, Real real, comm::State& comm, Presence presence) {
    Settled settled;
    {
        const Inside guard;
        if (const int rc = settle_persistent(call, comm, presence, settled); rc != MPI_SUCCESS)
            return rc;
        if (starts_agree(settled, comm))
            return make_persistent(call, real, comm, settled.print);
    }
    return begun(call, real, presence, settled.route.reason);
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
    const bool may_have_order =
        alone == Reason::kNone && (comm->order != nullptr || (persistent(call.id) && !comm->duplicated));
    if (alone == Reason::kNone && (!may_have_order || !request::engine_runs()))
        alone = Reason::kNotReady;
    if (alone != Reason::kNone)
        return begun(call, real, presence, alone);
    if (persistent(call.id))
        return made_persistent(call, real, *comm, presence);
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
