#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <optional>

#include "call/depth.hpp"
#include "call/job.hpp"
#include "coll/agree.hpp"
#include "coll/agree_and_setup.hpp"
#include "coll/nonblocking.hpp"
#include "coll/operands.hpp"
#include "coll/persistent.hpp"
#include "coll/repeat.hpp"
#include "coll/vote.hpp"
#include "comm/collective_setup.hpp"
#include "comm/contribution.hpp"
#include "comm/launch_order.hpp"
#include "comm/state.hpp"
#include "comm/where.hpp"
#include "datatype/element.hpp"
#include "datatype/extension.hpp"
#include "device/device.hpp"
#include "dispatch/dispatch.hpp"
#include "error/error.hpp"
#include "error/required.hpp"
#include "fastpath/driver_watch.hpp"
#include "nccl/collectives.hpp"
#include "nccl/operation.hpp"
#include "p2p/pair_comms.hpp"
#include "p2p/point_to_point.hpp"
#include "pack/reduce.hpp"
#include "progress/engine.hpp"
#include "progress/stall.hpp"
#include "real.hpp"
#include "report/flight.hpp"
#include "report/report.hpp"
#include "report/routes.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"
#include "staging/average.hpp"
#include "staging/split.hpp"
#include "staging/staged.hpp"
#include "window/window.hpp"

namespace swy::dispatch {

namespace {

int run_host(const Call& call, Real real) {
    const call::Inside guard;
    return real(call);
}

int run_staged(const Call& call, Real real, comm::OperationId what) {
    if (settings::values().cuda_aware_mpi && !datatype::averages(call.op))
        return run_host(call, real);
    const call::Inside guard;
    return staging::run(call, real, {what != 0 ? call.owner.comm : MPI_COMM_NULL, what});
}

// Returns the id of a collective whose route this rank decides alone; 0 where its ranks do not tell each other of
// failures.
comm::OperationId name_of(const Call& call) {
    comm::State* comm = call::job_agrees && staging::collective(call.id) ? comm::of(call.owner.comm) : nullptr;
    return comm != nullptr && !comm->spans_jobs ? comm::next_unnumbered(*comm) : 0;
}

// A call that waits for other ranks before its route is known.
struct Begun {
    explicit Begun(const Call& call)
        : since(report::enabled ? std::chrono::steady_clock::now() : report::Time()), flight(call.id, call.owner) {}
    Begun(const Call& call, const comm::State& comm) : Begun(call) {
        if (report::flight::on) [[unlikely]]
            flight.is_collective(comm.order != nullptr ? comm.order->number() : 0, comm.agreed_calls + 1);
    }
    const report::Time since;
    report::flight::Operation flight;
};

// Runs a call. Its route is told to whoever wants to know, and it is timed and counted where there is a report.
template <typename Run>
int reported(const Call& call, coll::Route route, Run run, Begun* begun = nullptr) {
    if (!report::enabled && !report::wants_routes()) [[likely]]
        return run();
    const report::Time start = begun != nullptr ? begun->since : std::chrono::steady_clock::now();
    const std::size_t bytes = coll::payload_bytes(call);
    const auto told = report::tell_route(call.id, call.owner, bytes, route.carrier, route.reason,
                                         begun != nullptr ? &begun->flight : nullptr);
    const int rc = run();
    if (report::enabled)
        report::tell_call(call.id, route.carrier, route.reason, bytes, start);
    return rc;
}

int host(const Call& call, Real real, Begun* begun = nullptr) {
    if (!report::enabled && begun == nullptr) [[likely]]
        return run_host(call, real);
    return reported(
        call, {}, [&] { return run_host(call, real); }, begun);
}

// Runs a call whose route this rank may decide alone: Open MPI moves the data for every rank, so what a peer does makes
// no difference.
int local(const Call& call, Real real, coll::Presence presence, Reason reason) {
    if (presence == coll::Presence::kNothing)
        return host(call, real);
    return reported(call, {Carrier::kStaged, reason}, [&] { return run_staged(call, real, name_of(call)); });
}

// The same where all ranks have agreed on the route. A rank with host memory alone learns here which rank could not
// pass its data.
int agreed_locally(const Call& call, Real real, comm::State& comm, coll::Presence presence,
                   const coll::AgreedRoute& agreement, Reason reason, Begun& begun) {
    const comm::OperationId what = comm::numbered(comm, comm::Numbered::kAgreed, agreement.print.sequence);
    if (presence != coll::Presence::kNothing)
        return reported(
            call, {Carrier::kStaged, reason}, [&] { return run_staged(call, real, what); }, &begun);
    const int rc = host(call, real, &begun);
    const std::string why = comm::Contribution(comm.handle, what).failure_elsewhere();
    return rc != MPI_SUCCESS || why.empty() ? rc : coll::failed(call, comm, why);
}

// Runs MPI_Reduce_local: no other process has a part in it.
int alone(const Call& call, Real real) {
    const coll::Presence presence = coll::on_device(call);
    if (presence != coll::Presence::kData)
        return local(call, real, presence, Reason::kNone);
    pack::Reducing reducing;
    if (const Reason why = pack::prepare(call, reducing); why != Reason::kNone)
        return local(call, real, presence, why);
    return reported(call, {Carrier::kPeer, Reason::kNone}, [&] {
        const call::Inside guard;
        const std::string failure = pack::run(reducing);
        return failure.empty() ? MPI_SUCCESS
                               : error::raise(call, MPI_ERR_OTHER, comm::where(call.id, call.owner) + ": " + failure);
    });
}

// What is wrong with device memory in a call that takes host memory alone.
std::string why_erroneous(CallId id) {
    if (id == CallId::kFreeMem)
        return "the address is device memory, which MPI_Alloc_mem never gives: free it by what has allocated it, as "
               "cudaFree";
    return "the buffer is device memory, and MPI copies the messages of MPI_Bsend to and from it on the host: attach "
           "host memory; the messages themselves may be device memory";
}

int erroneous(const Call& call, Real real) {
    const coll::Presence presence = coll::on_device(call);
    if (presence != coll::Presence::kData)
        return local(call, real, presence, Reason::kOutsideNccl);
    return error::raise(call, call.id == CallId::kFreeMem ? MPI_ERR_BASE : MPI_ERR_BUFFER,
                        comm::where(call.id, call.owner) + ": " + why_erroneous(call.id));
}

// Starts a call that leaves a request. Whether a rank stages its buffers or has none on a device, it makes the same
// real call.
int start_staged(const Call& call, Real real, coll::Presence presence, Reason reason) {
    const bool averages = datatype::averages(call.op);
    if (!averages && (presence != coll::Presence::kData || settings::values().cuda_aware_mpi))
        return local(call, real, presence, reason);
    const call::Inside guard;
    return staging::begin(call, real, name_of(call), reason, coll::payload_bytes(call));
}

// Runs an access that all ranks of a file make.
int together(const Call& call, Real real) {
    const coll::Presence presence = coll::on_device(call);
    const bool staged = presence != coll::Presence::kNothing;
    const coll::Route route = staged ? coll::Route{Carrier::kStaged, Reason::kOutsideNccl} : coll::Route{};
    return reported(call, route, [&] {
        const call::Inside guard;
        return staging::run_together(call, real, staged && !settings::values().cuda_aware_mpi);
    });
}

// Runs half of a split collective on a file. The end follows its beginning, whatever buffer the program passes.
int split(const Call& call, Real real) {
    const coll::Presence presence = coll::on_device(call);
    const bool ends = staging::ends_split(call.id);
    if (settings::values().cuda_aware_mpi || (presence == coll::Presence::kNothing && !ends))
        return local(call, real, presence, Reason::kOutsideNccl);
    const coll::Route route =
        presence == coll::Presence::kNothing ? coll::Route{} : coll::Route{Carrier::kStaged, Reason::kOutsideNccl};
    return reported(call, route,
                    [&] { return ends ? staging::end_split(call, real) : staging::begin_split(call, real); });
}

// Runs the call of a rank that publishes that it has host memory alone, and need not read the others' records.
int publish_and_call(const Call& call, Real real, comm::State& comm, const comm::SharedPage::Record& record) {
    const call::Inside guard;
    const coll::Decision decision = coll::tell_host(comm, record);
    if (decision.state == coll::Decision::State::kAgreed) [[likely]]
        return host(call, real);
    return coll::failed(call, comm, decision.problem);
}

int publish_and_call(const Call& call, Real real, comm::State& comm) {
    coll::Vote vote;
    vote.host = true;
    coll::describe(call, vote);
    if (coll::Repeat::possible(call) && comm.repeat != nullptr)
        *comm.repeat = coll::Repeat(call, vote);
    else if (coll::Repeat::possible(call))
        comm.repeat = std::make_shared<coll::Repeat>(call, vote);
    return publish_and_call(call, real, comm, coll::host_record(call, vote));
}

// Is this the last call again, on host memory as before?
bool publishes_again(const Call& call, comm::State* comm) {
    return comm != nullptr && comm->repeat != nullptr && coll::has_page(*comm) && comm->repeat->is(call) &&
           std::none_of(call.operands.begin(), call.operands.end(),
                        [](const Operand& operand) { return device::on_device(operand.address); });
}

int agreed(const Call& call, Real real, comm::State& comm, coll::Presence presence) {
    const call::Inside guard;
    Begun begun(call, comm);
    const auto describe = [&] { return coll::in_words(call, comm); };
    const progress::Waiting waiting(describe);
    comm::adopt_setup(comm);
    const p2p::pair_comms::Collective collective(comm);
    const coll::ConcurrentCollectives under_way(coll::ConcurrentCollectives::Kind::kBlocking);
    coll::AgreedRoute agreement;
    if (const int rc = coll::agree_and_setup(call, comm, presence, under_way, agreement); rc != MPI_SUCCESS)
        return rc;
    const coll::Route route = agreement.route;
    if (route.carrier != Carrier::kNccl)
        return agreed_locally(call, real, comm, presence, agreement, route.reason, begun);
    if (agreement.in_flight && comm.order == nullptr)
        return agreed_locally(call, real, comm, presence, agreement, Reason::kNoMemory, begun);
    const auto run = [&] {
        const std::string failure =
            agreement.in_flight ? coll::run_ordered(call, comm, agreement.print, std::move(*agreement.work))
                                : nccl::run(nccl::collective(std::move(*agreement.work)), comm.nccl, comm.handle);
        return failure.empty() ? MPI_SUCCESS : coll::failed(call, comm, failure);
    };
    return reported(call, route, run, &begun);
}

// Returns why this rank may decide the route alone, as all others do; kNone: it must not. `comm` becomes the
// communicator's state.
Reason reason_to_decide_alone(const Call& call, comm::State*& comm) {
    if (!call::job_agrees || call.owner.comm == MPI_COMM_NULL)
        return Reason::kSpansJobs;
    if (coll::needs_no_agreement(call))
        return Reason::kSmall;
    comm = comm::of(call.owner.comm);
    return comm == nullptr ? Reason::kNoMemory : coll::reason_to_stay_local(call, *comm);
}

int routed(const Call& call, Real real) {
    comm::State* comm = call::job_agrees ? comm::lately_used(call.owner.comm) : nullptr;
    if (publishes_again(call, comm)) [[likely]]
        return publish_and_call(call, real, *comm, comm->repeat->record());
    const Reason alone = reason_to_decide_alone(call, comm);
    const coll::Presence presence = coll::on_device(call, comm);
    if (alone != Reason::kNone)
        return local(call, real, presence, alone);
    if (comm->inter)
        comm = comm::of(comm->merged);
    if (comm == nullptr)
        return local(call, real, presence, Reason::kNoMemory);
    if (coll::size_is_unknown(call))
        return comm->intervals.of(call.id).due() ? agreed(call, real, *comm, presence)
                                                 : local(call, real, presence, Reason::kNotAsked);
    if (presence == coll::Presence::kNothing && coll::has_page(*comm) && coll::has_plain_data(call) &&
        !error::nccl_is_required())
        return publish_and_call(call, real, *comm);
    return agreed(call, real, *comm, presence);
}

// What the starts of a persistent call will need is not known when it is created, so it agrees then, and waits for that
// as MPI allows; each start agrees again. Where NCCL could not serve it, that is final.
int made_persistent(const Call& call, Real real, comm::State& comm, coll::Presence presence) {
    coll::AgreedRoute agreement;
    {
        const call::Inside guard;
        if (const int rc = coll::agree_on_persistent(call, comm, presence, agreement); rc != MPI_SUCCESS)
            return rc;
        if (coll::starts_agree(agreement, comm))
            return coll::make_persistent(call, real, comm, agreement.print);
    }
    return start_staged(call, real, presence, agreement.route.reason);
}

// A program's own operator cannot be kept for later, and is the same on all ranks.
int begun_routed(const Call& call, Real real) {
    const coll::Presence presence = coll::on_device(call);
    comm::State* comm = nullptr;
    Reason alone = reason_to_decide_alone(call, comm);
    if (alone == Reason::kNone && datatype::operator_of(call.op) == datatype::Operator::kUser)
        alone = Reason::kOperator;
    if (alone == Reason::kNone && comm->inter)
        comm = comm::of(comm->merged);
    if (alone == Reason::kNone && comm == nullptr)
        alone = Reason::kNoMemory;
    const bool may_have_order =
        alone == Reason::kNone && (comm->order != nullptr || (persistent(call.id) && !comm->duplicated));
    if (alone == Reason::kNone && !may_have_order)
        alone = Reason::kNotReady;
    if (alone != Reason::kNone)
        return start_staged(call, real, presence, alone);
    if (persistent(call.id))
        return made_persistent(call, real, *comm, presence);
    const call::Inside guard;
    return coll::start_agreed(call, *comm, presence);
}

// Starts a one-sided call: what it gets comes with the end of its epoch or request.
int one_sided(const Call& call, Real real) {
    if (window::is_direct(call.owner.win))
        return reported(call, {Carrier::kPeer, Reason::kNone}, [&] {
            const call::Inside guard;
            return window::perform(call);
        });
    const window::Translation translation(call);
    if (translation.code() != MPI_SUCCESS)
        return translation.code();
    const coll::Presence presence = coll::on_device(call);
    if (presence != coll::Presence::kData || settings::values().cuda_aware_mpi)
        return local(call, real, presence, Reason::kOutsideNccl);
    const call::Inside guard;
    if (call.request != nullptr)
        return window::begin(call, real, Reason::kOutsideNccl, coll::payload_bytes(call));
    return reported(call, {Carrier::kStaged, Reason::kOutsideNccl}, [&] { return window::stage(call, real); });
}

// Makes a window, or attaches memory to one.
int exposed(const Call& call, Real real) {
    std::optional<Begun> begun;
    if (call.made != nullptr && call::job_agrees) {
        begun.emplace(call);
        int code = MPI_SUCCESS;
        const bool made = [&] {
            const call::Inside guard;
            return window::create_direct(call, code);
        }();
        if (made)
            return reported(
                call, {Carrier::kPeer, Reason::kNone}, [code] { return code; }, &*begun);
    }
    Begun* const since = begun ? &*begun : nullptr;
    const coll::Presence presence = coll::on_device(call);
    if (presence == coll::Presence::kNothing || settings::values().cuda_aware_mpi)
        return host(call, real, since);
    const call::Inside guard;
    return reported(
        call, {Carrier::kStaged, Reason::kOutsideNccl},
        [&] { return call.made != nullptr ? window::create(call, real) : window::attach(call, real); }, since);
}

int matched(const Call& call, Real real) {
    const call::Inside guard;
    return p2p::dispatch(call, real);
}

// Runs a call that MPI makes itself, or that the program makes in a callback inside MPI: nothing can be agreed on, and
// nobody comes back to complete a non-blocking call.
int inside_mpi(const Call& call, Real real) {
    if (call.target != nullptr && window::is_direct(call.owner.win))
        return one_sided(call, real);
    const bool can_be_staged = (blocking(call.id) && call.made == nullptr) || call.operands.empty();
    const coll::Presence presence = coll::on_device(call);
    if (can_be_staged || presence != coll::Presence::kData)
        return local(call, real, presence, Reason::kInsideMpi);
    return error::raise(call, MPI_ERR_BUFFER,
                        fmt::format("{}: a buffer is device memory, and the call is made inside one of MPI's, where "
                                    "nothing can complete it: use a blocking form there, or copy to host memory first",
                                    comm::where(call.id, call.owner)));
}

int take_any(const Call& call, Real real) {
    if (driver_watch::changed()) [[unlikely]]
        driver_watch::refresh();
    if (call::depth != 0) [[unlikely]]
        return inside_mpi(call, real);
    switch (treatment(call.id)) {
        case Treatment::kRouted:
            return blocking(call.id) ? routed(call, real) : begun_routed(call, real);
        case Treatment::kMatched:
            return matched(call, real);
        case Treatment::kStaged:
            if (plain(call.id) == CallId::kReduceLocal)
                return alone(call, real);
            if (staging::begins_split(call.id) || staging::ends_split(call.id))
                return split(call, real);
            if (staging::made_together(call))
                return together(call, real);
            if (call.made != nullptr || call.id == CallId::kWinAttach)
                return exposed(call, real);
            if (call.owner.kind == Owner::Kind::kWin)
                return one_sided(call, real);
            return blocking(call.id) || call.request == nullptr
                       ? local(call, real, coll::on_device(call), Reason::kOutsideNccl)
                       : start_staged(call, real, coll::on_device(call), Reason::kOutsideNccl);
        default:  // kErroneous: the dispatcher gets no others
            return erroneous(call, real);
    }
}

// MPI makes a sum of it (the wrapper has seen to that), which is divided when it is there.
int averaging(const Call& call, Real real) {
    const auto divided = [&call, real](const Operand* use) {
        const int rc = real(use);
        if (rc == MPI_SUCCESS)
            staging::Average(call, use).divide();
        return rc;
    };
    return take_any(call, divided);
}

int take_or_throw(const Call& call, Real real) {
    if (!datatype::averages(call.op)) [[likely]]
        return take_any(call, real);
    if (blocking(call.id))
        return averaging(call, real);
    if (call::depth == 0 && progress::engine_runs())
        return take_any(call, real);
    return error::raise(call, MPI_ERR_OP,
                        fmt::format("{}: MPIX_AVG needs Switchyard's engine, which does not run here: use a blocking "
                                    "form",
                                    comm::where(call.id, call.owner)));
}

}  // namespace

int dispatch(const Call& call, Real real) {
    try {
        const int code = take_or_throw(call, real);
        // What MPI says of a call on host memory stays as it is.
        const bool adds_place = comm::says_too_little(code) && coll::on_device(call) != coll::Presence::kNothing;
        return adds_place ? comm::with_place(call.id, call.owner, code) : code;
    } catch (const std::bad_alloc&) {
        return error::raise(
            call, MPI_ERR_NO_MEM,
            comm::where(call.id, call.owner) + ": no host memory left for the routing of a device buffer");
    }
}

}  // namespace swy::dispatch
