#include "route/settle.hpp"

#include "comm/establish.hpp"
#include "comm/order.hpp"
#include "error/error.hpp"
#include "report/trace.hpp"
#include "route/begun.hpp"
#include "route/collective.hpp"

namespace swy::route {
namespace {

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
    if (!verdict.problem.empty())
        return verdict.problem;
    return verdict.begun ? describe_with_begun(call, comm, print) : describe_mismatch(comm, print);
}

// What may be gone when a persistent call is started.
bool passes(const Call& call, Reason reason) {
    return reason == Reason::kNotReady || (persistent(call.id) && reason == Reason::kThreads);
}

}  // namespace

int settle(const Call& call, comm::State& comm, Presence presence, const UnderWay& under_way, Settled& into) {
    comm.repeat.reset();  // the set-up may bring another threshold
    const Verdict verdict = agree(call, comm, vote_of(call, comm, presence, under_way, into.work), into.print);
    switch (verdict.state) {
        case Verdict::State::kMpiError:
            return verdict.mpi_code;
        case Verdict::State::kTimeout:
            return failed(call, comm, verdict.problem);
        case Verdict::State::kMismatch:
            return failed(call, comm, mismatch_in_words(call, comm, verdict, into.print));
        case Verdict::State::kSettled:
            break;
    }
    if (const int rc = share_board(comm, into.print); rc != MPI_SUCCESS)
        return rc;
    if (const int rc = set_up(call, verdict, comm, into.work); rc != MPI_SUCCESS)
        return rc;
    into.in_flight = verdict.in_flight;
    into.route = route_from(call, verdict, comm.obstacle);
    // Where NCCL is still at work on a communicator, calls that do not block agree already: made on the program's own
    // communicator they would not survive its MPI_Comm_free, which Open MPI does not hold back for them.
    into.soon = passes(call, into.route.reason) && !verdict.any_host;
    return into.route.carrier == Carrier::kNccl || into.soon ? make_order(call, comm) : MPI_SUCCESS;
}

int failed(const Call& call, const comm::State& comm, const std::string& why) {
    return error::raise(call, MPI_ERR_OTHER, in_call(call.id, &comm, comm.rank, comm.size, why));
}

}  // namespace swy::route
