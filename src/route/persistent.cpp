#include "route/persistent.hpp"

#include <fmt/format.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "carrier/nccl/flight.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/order.hpp"
#include "error/error.hpp"
#include "p2p/lanes.hpp"
#include "p2p/ledger.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "route/depth.hpp"
#include "route/in_turn.hpp"
#include "route/kept_call.hpp"

namespace swy::route {
namespace {

namespace nccl = carrier::nccl;

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
        if (!down && agreement != MPI_REQUEST_NULL)
            real::Request_free(&agreement);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    const Call& call() const { return kept.call(); }

    KeptCall kept;
    const std::shared_ptr<comm::Order> order;
    const Fingerprint print;
    const std::size_t bytes;
    const int rank, size;
    std::shared_ptr<carrier::staged::Standing> standing;
    MPI_Request agreement = MPI_REQUEST_NULL;
    Ballot mine{}, all{};
    std::uint64_t starts = 0;
};

// From a start to its end. Under the engine's lock but for its making.
class Started final : public request::Operation {
  public:
    explicit Started(std::shared_ptr<Kept> of)
        : Operation(of->call().id, of->call().owner), kept_(std::move(of)), launch_{kept_->print.sequence, 0} {}
    ~Started() override {
        if (done())
            return;
        const request::Hold hold;  // its making has failed
        announced_.reset();
    }

    // All that may fail here alone, before others are told. Not under the lock.
    void prepare(comm::State& comm) {
        const Call& call = kept_->call();
        under_way_.emplace(UnderWay::Kind::kBegun);
        {
            const request::Hold hold;
            announced_.emplace(comm);
        }
        std::optional<nccl::Work> work;
        Vote vote = vote_of(call, comm, on_device(call), *under_way_, work);
        if (vote.obstacle == Reason::kNone && (vote.setup != comm::Setup::kNone || comm.nccl == nullptr))
            vote.obstacle = comm.obstacle != Reason::kNone ? comm.obstacle : Reason::kNotReady;
        std::uint64_t communicator = 0;
        if (!vote.host && vote.obstacle == Reason::kNone) {
            flight_ = std::make_unique<nccl::Flight>(std::move(*work), comm.nccl);
            communicator = comm.nccl->id();
            if (!flight_->ready())
                vote.obstacle = Reason::kNoMemory;
        }
        fill_start(vote, communicator, kept_->mine);
    }

    // The engine has it. Not under the lock. MPI's code.
    int agree() {
        const int rc = real::Start(&kept_->agreement);
        const request::Hold hold;
        if (rc != MPI_SUCCESS) {
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks could not begin");
            return rc;
        }
        launch_.start = ++kept_->starts;
        ++kept_->order->agreements;
        on_communicator_ = true;
        state_ = State::kAgreeing;
        return rc;
    }

    bool step() override {
        try {
            return advance();
        } catch (const std::bad_alloc&) {
            fail_here(MPI_ERR_NO_MEM, "no host memory left");
            return true;
        }
    }

  private:
    enum class State : std::uint8_t { kNew, kAgreeing, kInTurn, kStaged };

    bool advance() {
        switch (state_) {
            case State::kNew:
                return false;
            case State::kAgreeing:
                return agreed();
            case State::kInTurn:
                return fly();
            case State::kStaged:
                return follow();
        }
        return false;
    }

    bool agreed() {
        if (!request::may_ask())
            return false;
        int flag = 0;
        const int rc = real::Test(&kept_->agreement, &flag, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && flag == 0)
            return false;
        ledger_.end_part("agreement");
        const Verdict verdict = read(kept_->all);
        if (rc != MPI_SUCCESS) {
            kept_->order->give_up(launch_);
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks failed");
            return true;
        }
        // Where the ranks would use different NCCL communicators, some were started before a set-up and some after it.
        const bool same = verdict.state != Verdict::State::kMismatch;
        settle(route_from(kept_->call(), verdict, same ? Reason::kNone : Reason::kNotReady));
        return true;
    }

    void settle(const Route& route) {
        ledger_.route(route.carrier, route.reason);
        if (route.carrier == Carrier::kNccl) {
            leave_communicator();
            state_ = State::kInTurn;
            in_turn_.emplace(std::move(flight_), kept_->order, launch_);
            return;
        }
        flight_.reset();
        announced_.reset();
        state_ = State::kStaged;
        staged_ = carrier::staged::start(kept_->standing, route.reason);
    }

    bool fly() {
        const bool moved = in_turn_->step(announced_->may_launch());
        if (!in_turn_->done())
            return moved;
        if (const std::string failure = in_turn_->failure(); !failure.empty())
            fail_here(MPI_ERR_OTHER, failure);
        else
            end({}, true);
        return true;
    }

    bool follow() {
        const bool moved = staged_->step();
        if (!staged_->done())
            return moved;
        end(staged_->outcome(), false);  // it has told the report
        return true;
    }

    void fail_here(int mpi_class, const std::string& why) {
        request::Outcome outcome;
        outcome.mpi_class = mpi_class;
        outcome.text =
            fmt::format("{} on rank {} of a communicator of {} ranks: {}", name(call()), kept_->rank, kept_->size, why);
        end(std::move(outcome), false);
    }

    void leave_communicator() {
        if (std::exchange(on_communicator_, false))
            --kept_->order->agreements;
    }

    void end(request::Outcome outcome, bool tells_report) {
        if (tells_report)
            ledger_.close(call(), kept_->bytes);
        leave_communicator();
        in_turn_.reset();
        announced_.reset();
        flight_.reset();
        staged_.reset();
        under_way_.reset();
        finish(std::move(outcome));
    }

    const std::shared_ptr<Kept> kept_;
    comm::Order::Launch launch_;
    std::optional<UnderWay> under_way_;
    std::optional<p2p::lanes::Announced> announced_;
    std::unique_ptr<nccl::Flight> flight_;
    std::optional<InTurn> in_turn_;
    std::shared_ptr<carrier::staged::Deferred> staged_;
    State state_ = State::kNew;
    bool on_communicator_ = false;
    p2p::Ledger ledger_;
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
    auto operation = std::make_shared<Started>(kept);
    operation->prepare(*comm);
    {
        const request::Hold hold;
        request::add(operation);
    }
    code = operation->agree();
    return code == MPI_SUCCESS ? operation : nullptr;
}

}  // namespace

int settle_persistent(const Call& call, comm::State& comm, Presence presence, Settled& into) {
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
        code = real::persistent_allreduce(kept->mine.data(), kept->all.data(), static_cast<int>(kept->mine.size()),
                                          MPI_INT64_T, MPI_MAX, comm.handle, MPI_INFO_NULL, &kept->agreement);
    if (code != MPI_SUCCESS)
        return code;
    return request::hand_out_persistent(
        call.id, call.owner.comm, [kept](int& error) { return start(kept, error); }, call.request);
}

}  // namespace swy::route
