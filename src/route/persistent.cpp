#include "route/persistent.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "carrier/staged/staged.hpp"
#include "comm/order.hpp"
#include "error/error.hpp"
#include "p2p/lanes.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "request/wait.hpp"
#include "route/agreed.hpp"
#include "route/depth.hpp"
#include "route/kept_call.hpp"
#include "settings/settings.hpp"

namespace swy::route {
namespace {

// What the starts of one request have in common, from its making to its freeing.
//
// The agreement is a persistent reduction that is made in the call's place on the program's communicator, so that MPI
// knows which starts belong together, in whatever order they come. So is the real call, for the starts that are staged.
struct Kept {
    Kept(const Call& call, const comm::State& comm, const Fingerprint& of_call, std::size_t payload)
        : kept(call, comm.size), order(comm.order), print(of_call), bytes(payload), rank(comm.rank), size(comm.size) {}
    ~Kept() {
        int down = 0;
        real::Finalized(&down);
        if (!down && !ballots->left_to_mpi && ballots->request != MPI_REQUEST_NULL)
            real::Request_free(&ballots->request);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    const Call& call() const { return kept.call(); }
    std::string why_given_up() const {
        const request::Hold hold;
        return given_up;
    }

    KeptCall kept;
    const std::shared_ptr<comm::Order> order;
    const Fingerprint print;
    const std::size_t bytes;
    const int rank, size;
    std::shared_ptr<carrier::staged::Standing> standing;
    const std::shared_ptr<Ballots> ballots = std::make_shared<Ballots>();
    std::uint64_t starts = 0;
    std::string given_up;  // why, of a start that not all ranks have made: MPI would take the next one for that one
};

// From a start to its end. Under the engine's lock but for its making.
class Started final : public Agreed {
  public:
    explicit Started(const std::shared_ptr<Kept>& of)
        : Agreed(of->call(), of->rank, of->size, of->order, Place::kAnywhere, {of, &of->kept}, of->bytes), of_(of) {}

    // All that may fail here alone, before others are told. Not under the lock.
    void prepare(comm::State& comm) {
        const Vote vote = Agreed::prepare(comm, on_device(of_->call()));
        fill_start(vote, prepared_for(), of_->ballots->mine);
    }

    // The engine has it. Not under the lock. MPI's code.
    int agree(const comm::State& comm) {
        const int rc = real::Start(&of_->ballots->request);
        const request::Hold hold;
        if (rc != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks could not begin");
        else
            ask(comm, of_->ballots, {of_->print.sequence, ++of_->starts});
        return rc;
    }

  private:
    void failing(const std::string& why) override {
        if (agreeing())
            of_->given_up = why;
        Agreed::failing(why);
    }

    // Where the ranks would use different NCCL communicators, some were started before a set-up and some after it.
    void heard(const Verdict& verdict) override {
        const bool same = verdict.state != Verdict::State::kMismatch;
        settle(route_from(kept(), verdict, same ? Reason::kNone : Reason::kNotReady));
    }

    // MPI is at work on the program's communicator.
    std::shared_ptr<carrier::staged::Deferred> stage(Reason reason) override {
        ++order_->agreements;
        on_communicator_ = true;
        return carrier::staged::start(of_->standing, reason);
    }

    void end(request::Outcome outcome) override {
        if (std::exchange(on_communicator_, false))
            --order_->agreements;
        Agreed::end(std::move(outcome));
    }

    const std::shared_ptr<Kept> of_;
    bool on_communicator_ = false;
};

std::shared_ptr<request::Operation> start(const std::shared_ptr<Kept>& kept, int& code) {
    const Inside guard;
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
        const request::Hold hold;
        request::add(operation);
    }
    code = operation->agree(*comm);
    return code == MPI_SUCCESS ? operation : nullptr;
}

}  // namespace

// MPI lets the making wait for all ranks: what NCCL is not through with now, no start would take up later.
int settle_persistent(const Call& call, comm::State& comm, Presence presence, Settled& into) {
    const request::Deadline deadline(settings::values().timeout);
    while (comm.under_way() && !deadline.passed())
        request::progress();
    const p2p::lanes::Collective collective(comm);
    const UnderWay under_way(UnderWay::Kind::kBegun);
    return settle(call, comm, presence, under_way, into);
}

bool starts_agree(const Settled& settled, const comm::State& comm) {
    return (settled.route.carrier == Carrier::kNccl || settled.soon) && comm.order != nullptr;
}

int make_persistent(const Call& call, Real real, comm::State& comm, const Fingerprint& print) {
    auto kept = std::make_shared<Kept>(call, comm, print, payload_bytes(call));
    int code = MPI_SUCCESS;
    kept->standing = carrier::staged::stand_by(call, real, kept->bytes, code);
    if (code == MPI_SUCCESS)
        code = real::persistent_allreduce(kept->ballots->mine.data(), kept->ballots->all.data(),
                                          static_cast<int>(kept->ballots->mine.size()), MPI_INT64_T, MPI_MAX,
                                          comm.handle, MPI_INFO_NULL, &kept->ballots->request);
    if (code != MPI_SUCCESS)
        return code;
    return request::hand_out_persistent(
        call.id, call.owner.comm, [kept](int& error) { return start(kept, error); }, call.request);
}

}  // namespace swy::route
