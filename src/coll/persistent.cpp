#include "coll/persistent.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "call/depth.hpp"
#include "coll/collective_operation.hpp"
#include "coll/roll_call.hpp"
#include "coll/saved_call.hpp"
#include "comm/collective_setup.hpp"
#include "comm/launch_order.hpp"
#include "error/error.hpp"
#include "p2p/pair_comms.hpp"
#include "progress/engine.hpp"
#include "progress/stall.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "request/handle.hpp"
#include "settings/settings.hpp"
#include "staging/staged.hpp"

namespace swy::coll {
namespace {

// What the starts of one request have in common, from its creation to its freeing.
//
// The agreement is a persistent reduction that is created in the call's place on the program's communicator, so that
// MPI knows which starts belong together, in whatever order they come. The real call, for the starts that are staged,
// is created in the same way.
struct Kept {
    Kept(const Call& call, const comm::State& comm, const Fingerprint& of_call, std::size_t payload)
        : kept(call), order(comm.order), print(of_call), bytes(payload), rank(comm.rank), size(comm.size) {}
    ~Kept() {
        int down = 0;
        real::Finalized(&down);
        if (!down && records->request != MPI_REQUEST_NULL)
            real::Request_free(&records->request);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    const Call& call() const { return kept.call(); }
    std::string why_given_up() const {
        const progress::Hold hold;
        return given_up;
    }

    SavedCall kept;
    const std::shared_ptr<comm::LaunchOrder> order;
    const Fingerprint print;
    const std::size_t bytes;
    const int rank, size;
    std::shared_ptr<staging::PersistentStaging> standing;
    const std::shared_ptr<VoteExchange> records = std::make_shared<VoteExchange>();
    std::uint64_t starts = 0;
    std::string given_up;  // why, of a start that not all ranks have made: MPI would match the next start with it
};

// One start, until its end. Used under the engine's lock, except for its construction.
class Started final : public CollectiveOperation {
  public:
    explicit Started(const std::shared_ptr<Kept>& of)
        : CollectiveOperation(of->call(), of->rank, of->size, of->order, Place::kAnywhere, {of, &of->kept}, of->bytes),
          of_(of) {}

    // Does everything that may fail on this rank alone, before the other ranks are told. Not called under the lock.
    void prepare(comm::State& comm) {
        const Vote vote = CollectiveOperation::prepare(comm, on_device(of_->call()));
        fill_start(vote, prepared_for(), of_->records->mine);
    }

    // Starts the agreement, when the engine has the operation. Not called under the lock. Returns MPI's code.
    int agree(comm::State& comm) {
        fill_time(of_->records->mine, time_of_vote());
        const int rc = real::Start(&of_->records->request);
        const progress::Hold hold;
        if (rc != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks could not begin");
        else
            ask(comm, of_->records, {of_->print.sequence, ++of_->starts});
        return rc;
    }

  private:
    void failing(const std::string& why) override {
        if (agreeing())
            of_->given_up = why;
        CollectiveOperation::failing(why);
    }

    // A mismatch means that the ranks would use different NCCL communicators: some were started before a set-up and
    // some after it.
    void decided(const Decision& decision) override {
        const Route route = route_from(decision);
        const bool different = decision.state == Decision::State::kMismatch && route.carrier == Carrier::kNccl;
        take_route(different ? Route{Carrier::kStaged, Reason::kNotReady} : route);
    }

    // The real call works on the program's communicator, so it counts among the order's agreements until its end.
    std::shared_ptr<staging::Deferred> stage(Reason reason) override {
        ++order_->agreements;
        on_communicator_ = true;
        return staging::start(of_->standing, contribution(kept().owner.comm), reason);
    }

    void end(progress::Outcome outcome) override {
        if (std::exchange(on_communicator_, false))
            --order_->agreements;
        CollectiveOperation::end(std::move(outcome));
    }

    const std::shared_ptr<Kept> of_;
    bool on_communicator_ = false;
};

std::shared_ptr<progress::Operation> start(const std::shared_ptr<Kept>& kept, int& code) {
    const call::Inside guard;
    comm::State* comm = kept->order->owner();
    if (comm == nullptr) {
        code = error::raise(
            Owner(MPI_COMM_WORLD), MPI_ERR_REQUEST,
            fmt::format("MPI_Start: the communicator of a request of {} has been freed", name(kept->call().id)));
        return nullptr;
    }
    if (const std::string why = kept->why_given_up(); !why.empty()) {
        code = error::raise(kept->call(), MPI_ERR_REQUEST,
                            fmt::format("MPI_Start: an earlier start of this request of {} was given up; have all "
                                        "ranks free it and make it anew ({})",
                                        name(kept->call().id), why));
        return nullptr;
    }
    auto operation = std::make_shared<Started>(kept);
    operation->prepare(*comm);
    {
        const progress::Hold hold;
        progress::add(operation);
    }
    code = operation->agree(*comm);
    return code == MPI_SUCCESS ? operation : nullptr;
}

}  // namespace

// MPI lets the creation wait for all ranks, so it may set up an NCCL communicator.
int agree_on_persistent(const Call& call, comm::State& comm, Presence presence, AgreedRoute& into) {
    const auto describe = [&] { return in_words(call, comm); };
    const progress::Waiting waiting(describe);
    comm::adopt_setup(comm);
    const p2p::pair_comms::Collective collective(comm);
    const ConcurrentCollectives under_way(ConcurrentCollectives::Kind::kNonblocking);
    return agree_and_setup(call, comm, presence, under_way, into);
}

bool starts_agree(const AgreedRoute& agreement, const comm::State& comm) {
    return (agreement.route.carrier == Carrier::kNccl || agreement.soon) && comm.order != nullptr;
}

int make_persistent(const Call& call, Real real, comm::State& comm, const Fingerprint& print) {
    auto kept = std::make_shared<Kept>(call, comm, print, payload_bytes(call));
    int code = MPI_SUCCESS;
    kept->standing = staging::stand_by(call, real, kept->bytes, code);
    if (code == MPI_SUCCESS)
        code = real::persistent_allreduce(kept->records->mine.data(), kept->records->all.data(),
                                          static_cast<int>(kept->records->mine.size()), MPI_INT64_T, MPI_MAX,
                                          comm.handle, MPI_INFO_NULL, &kept->records->request);
    if (code != MPI_SUCCESS)
        return code;
    return request::hand_out_persistent(
        call.id, call.owner.comm, [kept](int& error) { return start(kept, error); }, call.request);
}

}  // namespace swy::coll
