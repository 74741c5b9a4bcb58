#include "route/begun.hpp"

#include <fmt/format.h>

#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "carrier/nccl/flight.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/control.hpp"
#include "comm/order.hpp"
#include "p2p/lanes.hpp"
#include "p2p/ledger.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "request/wait.hpp"
#include "route/in_turn.hpp"
#include "route/kept_call.hpp"
#include "settings/settings.hpp"

namespace swy::route {
namespace {

namespace nccl = carrier::nccl;

constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // numbers that differ little become ones that differ much

// From the call to the end of its work. Under the engine's lock but for its making.
class Collective final : public request::Operation {
  public:
    Collective(const Call& call, comm::State& comm, std::size_t bytes)
        : Operation(call.id, call.owner), rank_(comm.rank), size_(comm.size), order_(comm.order), bytes_(bytes) {}
    ~Collective() override {
        if (done())
            return;
        const request::Hold hold;  // its making has failed
        order_->leave(this);
        announced_.reset();
    }

    // All that may fail here alone, before others are told. Not under the lock.
    Vote prepare(const Call& program, comm::State& comm, Presence presence) {
        const Call& call = kept_.emplace(program, comm.size).call();
        under_way_.emplace(UnderWay::Kind::kBegun);
        {
            const request::Hold hold;
            announced_.emplace(comm);
            order_->enter(this);
        }
        std::optional<nccl::Work> work;
        Vote vote = vote_of(call, comm, presence, *under_way_, work);
        if (vote.obstacle == Reason::kNone && (vote.setup != comm::Setup::kNone || comm.nccl == nullptr))
            vote.obstacle = comm.obstacle != Reason::kNone ? comm.obstacle : Reason::kNotReady;
        if (!vote.host && vote.obstacle == Reason::kNone) {
            flight_ = std::make_unique<nccl::Flight>(std::move(*work), comm.nccl);
            if (!flight_->ready())
                vote.obstacle = Reason::kNoMemory;
        }
        return vote;
    }

    // The engine has it. Not under the lock. MPI's code.
    int agree_first(comm::State& comm, const Vote& vote) {
        asked_ = std::make_unique<Asked>();
        deadline_.emplace(settings::values().timeout);
        const int rc = begin(kept_->call(), comm, vote, print_, asked_->mine, asked_->all, asked_->request);
        state_of_comm_ = &comm;
        if (settings::values().timeout > 0)
            giving_up_ = kGoldenRatio * (static_cast<std::uint64_t>(order_->number()) << 32U | print_.sequence);
        const request::Hold hold;
        if (rc != MPI_SUCCESS) {
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks could not begin");
            return rc;
        }
        ++order_->agreements;
        state_ = State::kAgreeing;
        return rc;
    }

    // Has agreed on NCCL already, and its call tells the report.
    void take_turn(std::unique_ptr<nccl::Flight> flight, const Fingerprint& print) {
        flight_ = std::move(flight);
        print_ = print;
        reported_ = true;
        order_->enter(this);
        wait_for_turn();
    }

    // Has agreed that the calls do not match.
    void take_part_in_comparison(const Fingerprint& print) {
        print_ = print;
        order_->enter(this);
        begin_comparison();
    }

    bool step() override {
        try {
            return advance();
        } catch (const std::bad_alloc&) {
            fail_here(MPI_ERR_NO_MEM, "no host memory left");
            return true;
        }
    }

    const std::string& why() const { return why_; }  // it failed, once done

  private:
    enum class State : std::uint8_t { kNew, kAgreeing, kComparing, kInTurn, kDeferred };

    bool advance() {
        switch (state_) {
            case State::kNew:
                return false;
            case State::kComparing:
                return compared();
            case State::kAgreeing:
                return order_->first(this) && agreed();
            case State::kInTurn:
                return fly();
            case State::kDeferred:
                return follow();
        }
        return false;
    }

    bool agreed() {
        if (!request::may_ask())
            return false;
        int flag = 0;
        const int rc = real::Test(&asked_->request, &flag, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && flag == 0)
            return deadline_->passed() && give_up_agreement();
        --order_->agreements;
        ledger_.end_part("agreement");
        const Verdict verdict = read(asked_->all);
        if (rc != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks failed");
        else if (const std::string other = given_up_elsewhere(); !other.empty())
            fail_here(MPI_ERR_OTHER, other);
        else if (verdict.state == Verdict::State::kMismatch)
            begin_comparison();
        else
            settle(route_from(kept_->call(), verdict, Reason::kNone));
        return true;
    }

    // MPI goes on with the exchange, and writes into what it was given when the last rank comes. That one must not
    // begin what others will not: it hears of it.
    bool give_up_agreement() {
        new std::unique_ptr<Asked>(std::move(asked_));
        if (giving_up_ != 0)
            comm::tell_failure(comm::ranks_in_world(*state_of_comm_), rank_, giving_up_, kNotAllCame);
        order_->leave_agreement(state_of_comm_->handle);
        fail_here(MPI_ERR_OTHER, kNotAllCame);
        return true;
    }

    std::string given_up_elsewhere() const {
        if (giving_up_ == 0)
            return {};
        comm::hear_failures();
        comm::Failure first;
        if (!comm::failure_told(giving_up_, &first))
            return {};
        comm::forget_failures(giving_up_);
        return fmt::format("rank {} has given it up: {}", first.rank, first.why);
    }

    // For the error's text, in the operation's place among those of the private communicator.
    void begin_comparison() {
        state_ = State::kComparing;
        prints_.resize(static_cast<std::size_t>(size_));
    }

    bool compared() {
        if (comparison_ == MPI_REQUEST_NULL) {
            if (!order_->first(this))
                return false;
            const int rc = real::Iallgather(&print_, sizeof print_, MPI_BYTE, prints_.data(), sizeof print_, MPI_BYTE,
                                            order_->shadow(), &comparison_);
            order_->leave(this);
            if (rc != MPI_SUCCESS)
                fail_here(MPI_ERR_OTHER, fmt::format("the ranks' calls do not match: here {}", in_words(print_)));
            return true;
        }
        int flag = 0;
        if (!request::may_ask() || (real::Test(&comparison_, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == 0))
            return false;
        fail_here(MPI_ERR_OTHER, compare(prints_));
        return true;
    }

    void settle(const Route& route) {
        ledger_.route(route.carrier, route.reason);
        if (route.carrier == Carrier::kNccl)
            return wait_for_turn();
        flight_.reset();
        announced_.reset();
        state_ = State::kDeferred;
        const auto make = [this](const Operand* operands, MPI_Request* request) {
            return call_again(kept_->call(), operands, order_->shadow(), request);
        };
        deferred_ = carrier::staged::defer(kept_->call(), make, route.reason, bytes_);
    }

    void wait_for_turn() {
        ledger_.route(Carrier::kNccl, Reason::kNone);
        state_ = State::kInTurn;
        in_turn_.emplace(std::move(flight_), order_, comm::Order::Launch{print_.sequence});
    }

    bool fly() {
        const bool moved = in_turn_->step(order_->first(this) && (!announced_ || announced_->may_launch()));
        if (in_turn_->settled())
            order_->leave(this);
        if (!in_turn_->done())
            return moved;
        if (const std::string failure = in_turn_->failure(); !failure.empty())
            fail_here(MPI_ERR_OTHER, failure);
        else
            end({});
        return true;
    }

    bool follow() {
        const bool moved = deferred_->step();
        if (deferred_->called())
            order_->leave(this);
        if (!deferred_->done())
            return moved;
        // It has told the report.
        request::Outcome outcome = deferred_->outcome();
        reported_ = true;
        end(std::move(outcome));
        return true;
    }

    void fail_here(int mpi_class, const std::string& why) {
        if (state_ == State::kAgreeing)
            order_->give_up({print_.sequence});
        request::Outcome outcome;
        outcome.mpi_class = mpi_class;
        why_ = why;
        outcome.text = fmt::format("{} on rank {} of a communicator of {} ranks: {}", name(call()), rank_, size_, why);
        end(std::move(outcome));
    }

    // Gives back what others may want, however long the program keeps the request.
    void end(request::Outcome outcome) {
        if (outcome.mpi_class == MPI_SUCCESS && !reported_)
            ledger_.close(call(), bytes_);
        order_->leave(this);
        in_turn_.reset();
        announced_.reset();
        flight_.reset();
        deferred_.reset();
        kept_.reset();
        order_.reset();
        under_way_.reset();
        finish(std::move(outcome));
    }

    const int rank_, size_;
    std::shared_ptr<comm::Order> order_;
    const std::size_t bytes_;
    std::optional<KeptCall> kept_;
    std::optional<UnderWay> under_way_;
    std::optional<p2p::lanes::Announced> announced_;
    std::unique_ptr<nccl::Flight> flight_;
    std::shared_ptr<carrier::staged::Deferred> deferred_;
    Fingerprint print_;
    struct Asked {
        Ballot mine{}, all{};
        MPI_Request request = MPI_REQUEST_NULL;
    };
    std::unique_ptr<Asked> asked_;
    comm::Undertaking giving_up_ = 0;       // of the agreement, as ranks tell each other; 0 where they do not
    comm::State* state_of_comm_ = nullptr;  // until the agreement has ended, for which MPI_Comm_free waits
    MPI_Request comparison_ = MPI_REQUEST_NULL;
    std::vector<Fingerprint> prints_;
    std::string why_;
    State state_ = State::kNew;
    std::optional<request::Deadline> deadline_;  // of the agreement
    std::optional<InTurn> in_turn_;
    p2p::Ledger ledger_;
    bool reported_ = false;
};

}  // namespace

int begin_agreed(const Call& call, comm::State& comm, Presence presence) {
    auto operation = std::make_shared<Collective>(call, comm, payload_bytes(call));
    const Vote vote = operation->prepare(call, comm, presence);
    {
        const request::Hold hold;
        request::add(operation);
    }
    if (const int rc = operation->agree_first(comm, vote); rc != MPI_SUCCESS)
        return rc;
    return request::hand_out(std::move(operation), call.request);
}

std::string run_in_turn(const Call& call, comm::State& comm, const Fingerprint& print, nccl::Work work) {
    auto flight = std::make_unique<nccl::Flight>(std::move(work), comm.nccl);
    flight->ready();  // where it is not, it fails in its turn, which the others wait for
    auto operation = std::make_shared<Collective>(call, comm, 0);
    {
        const request::Hold hold;
        operation->take_turn(std::move(flight), print);
        request::add(operation);
    }
    request::wait_for(*operation);
    return operation->why();
}

std::string describe_with_begun(const Call& call, comm::State& comm, const Fingerprint& print) {
    auto operation = std::make_shared<Collective>(call, comm, 0);
    {
        const request::Hold hold;
        operation->take_part_in_comparison(print);
        request::add(operation);
    }
    request::wait_for(*operation);
    return operation->why();
}

}  // namespace swy::route
