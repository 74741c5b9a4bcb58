#include "coll/agree_and_setup.hpp"

#include <fmt/format.h>

#include "call/job.hpp"
#include "coll/agree.hpp"
#include "coll/collective.hpp"
#include "coll/nonblocking.hpp"
#include "comm/collective_setup.hpp"
#include "comm/launch_order.hpp"
#include "error/error.hpp"
#include "error/loss.hpp"
#include "error/required.hpp"
#include "pack/neighbours.hpp"
#include "report/trace.hpp"

namespace swy::coll {
namespace {

// How many set-ups a call waits for: calls that do not block may have begun others, for other devices.
constexpr int kMostAwaited = 3;

// The code of a call of ours that MPI has failed in. Open MPI's collectives that do not block say MPI_ERR_OTHER where
// the communicator is revoked as they begin.
int from_mpi(const Call& call, int code) {
    return error::class_of(call.owner, code);
}

// `obstacle` becomes what keeps the ranks from NCCL after the set-up, alike on all.
int set_up(const Call& call, const Decision& decision, comm::State& comm, const AgreedRoute& into, Reason& obstacle) {
    obstacle = Reason::kNone;
    if (!all_can(decision) || !decision.needs_setup)
        return MPI_SUCCESS;
    const report::trace::Part part("NCCL communicator");
    const device::Location& location = into.work->location;
    for (int number = 1; number <= kMostAwaited; ++number) {
        const std::uint64_t ended = decision.setups + static_cast<std::uint64_t>(number) - 1;
        if (const int rc = comm::set_up(comm, location, ended); rc != MPI_SUCCESS)
            return from_mpi(call, rc);
        const Decision found =
            ask(comm, into.print, number, comm.needs_setup(location.ordinal) ? Reason::kNotReady : comm.obstacle);
        if (found.state != Decision::State::kAgreed)
            return failed(call, comm, found.problem);
        obstacle = found.obstacle;
        if (obstacle != Reason::kNotReady)
            break;
    }
    return MPI_SUCCESS;
}

// Asks the ranks for their calls where the agreement has not told them.
std::string mismatch_in_words(const Call& call, comm::State& comm, const Decision& decision, const Fingerprint& print) {
    if (!decision.problem.empty())
        return decision.problem;
    return decision.nonblocking ? describe_with_nonblocking(call, comm, print) : describe_mismatch(comm, print);
}

// Tells whether an obstacle may be gone when a later call is made or a persistent one is started.
bool passes(const Call& call, Reason reason) {
    return reason == Reason::kNotReady || (persistent(call.id) && reason == Reason::kThreads);
}

void note_interval(const Call& call, const Decision& decision, comm::State& comm) {
    comm.intervals.of(call.id).agreed(decision.any_device);
    if (comm.sources >= 0)
        return;
    const pack::Neighbours neighbours = pack::neighbours_of(comm.handle);
    comm.sources = static_cast<int>(neighbours.sources.size());
    comm.targets = static_cast<int>(neighbours.targets.size());
}

}  // namespace

int agree_and_setup(const Call& call, comm::State& comm, Presence presence, const ConcurrentCollectives& under_way,
                    AgreedRoute& into) {
    comm.repeat.reset();  // the set-up may bring another threshold
    const Decision decision = agree(call, comm, vote_of(call, comm, presence, under_way, into.work), into.print);
    switch (decision.state) {
        case Decision::State::kMpiError:
            return from_mpi(call, decision.mpi_code);
        case Decision::State::kTimeout:
            return failed(call, comm, decision.problem);
        case Decision::State::kMismatch:
            return failed(call, comm, mismatch_in_words(call, comm, decision, into.print));
        case Decision::State::kAgreed:
            break;
    }
    if (size_is_unknown(call) && !error::nccl_is_required() && !call::limited)
        note_interval(call, decision, comm);
    if (const int rc = share_page(comm, into.print); rc != MPI_SUCCESS)
        return from_mpi(call, rc);
    Reason obstacle = Reason::kNone;
    if (const int rc = set_up(call, decision, comm, into, obstacle); rc != MPI_SUCCESS)
        return rc;
    into.in_flight = decision.in_flight;
    into.route = route_from(decision, obstacle);
    // The agreement has kept the call's place among the communicator's: no rank makes the real call.
    if (const std::string why = error::refusal(into.route.reason); !why.empty())
        return failed(call, comm, why);
    // Where NCCL is still at work on a communicator, non-blocking calls agree already: made on the program's own
    // communicator they would not survive its MPI_Comm_free, which Open MPI does not hold back for them.
    into.soon = passes(call, into.route.reason) && !decision.any_host;
    return into.route.carrier == Carrier::kNccl || into.soon ? comm::LaunchOrder::make_if_missing(comm) : MPI_SUCCESS;
}

std::string in_words(const Call& call, const comm::State& comm) {
    return in_call(call.id, &comm, comm.rank, comm.size, fmt::format("{} bytes", payload_bytes(call)));
}

int failed(const Call& call, const comm::State& comm, const std::string& why) {
    return error::raise(call, MPI_ERR_OTHER, in_call(call.id, &comm, comm.rank, comm.size, why));
}

}  // namespace swy::coll
