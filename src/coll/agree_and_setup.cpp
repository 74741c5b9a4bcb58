#include "coll/agree_and_setup.hpp"

#include <fmt/format.h>

#include "coll/agree.hpp"
#include "coll/collective.hpp"
#include "coll/nonblocking.hpp"
#include "comm/collective_setup.hpp"
#include "comm/launch_order.hpp"
#include "error/error.hpp"
#include "error/loss.hpp"
#include "error/required.hpp"
#include "report/trace.hpp"

namespace swy::coll {
namespace {

// How many set-ups a call waits for: calls that do not block may have begun others, for other devices.
constexpr int kMostAwaited = 3;

// The ranks agree, and where they find that they need a set-up, they agree again after it on what it has brought: so
// none waits for the others without the limit that an agreement has.
int agree_with_setup(const Call& call, comm::State& comm, Presence presence, const ConcurrentCollectives& under_way,
                     AgreedRoute& into, Decision& decision) {
    for (int again = 0;; ++again) {
        decision = agree(call, comm, vote_of(call, comm, presence, under_way, into.work), into.print, again);
        if (decision.state != Decision::State::kAgreed || !decision.needs_setup || !all_can(call, decision))
            return MPI_SUCCESS;
        if (again == kMostAwaited) {
            decision.obstacle = Reason::kNotReady;
            return MPI_SUCCESS;
        }
        const report::trace::Part part("NCCL communicator");
        if (const int rc = comm::set_up(comm, into.work->location, decision.setups); rc != MPI_SUCCESS)
            return rc;
    }
}

// Asks the ranks for their calls where the agreement has not told them.
std::string mismatch_in_words(const Call& call, comm::State& comm, const Decision& decision, const Fingerprint& print) {
    if (!decision.problem.empty())
        return decision.problem;
    return decision.nonblocking ? describe_with_nonblocking(call, comm, print) : describe_mismatch(comm, print);
}

// The code of a call of ours that MPI has failed in. Open MPI's collectives that do not block say MPI_ERR_OTHER where
// the communicator is revoked as they begin.
int from_mpi(const Call& call, int code) {
    return error::class_of(call.owner, code);
}

// Tells whether an obstacle may be gone when a later call is made or a persistent one is started.
bool passes(const Call& call, Reason reason) {
    return reason == Reason::kNotReady || (persistent(call.id) && reason == Reason::kThreads);
}

}  // namespace

int agree_and_setup(const Call& call, comm::State& comm, Presence presence, const ConcurrentCollectives& under_way,
                    AgreedRoute& into) {
    comm.repeat.reset();  // the set-up may bring another threshold
    Decision decision;
    if (const int rc = agree_with_setup(call, comm, presence, under_way, into, decision); rc != MPI_SUCCESS)
        return from_mpi(call, rc);
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
    if (size_is_unknown(call))
        comm.intervals[call.id].agreed(decision.any_device);
    if (const int rc = share_page(comm, into.print); rc != MPI_SUCCESS)
        return from_mpi(call, rc);
    into.in_flight = decision.in_flight;
    into.route = route_from(call, decision);
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
