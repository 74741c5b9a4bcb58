#include "route/begun.hpp"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "carrier/nccl/flight.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/order.hpp"
#include "p2p/lanes.hpp"
#include "p2p/ledger.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "request/wait.hpp"
#include "route/kept_call.hpp"
#include "settings/settings.hpp"

namespace swy::route {
namespace {

namespace nccl = carrier::nccl;

std::atomic<int> unfinished{0};

// From the call to the end of its work. Under the engine's lock but for its making.
class Collective final : public request::Operation {
  public:
    Collective(const Call& call, comm::State& comm, std::size_t bytes)
        : Operation(call.id, call.owner), rank_(comm.rank), size_(comm.size), order_(comm.order), bytes_(bytes) {
        unfinished.fetch_add(1, std::memory_order_relaxed);
    }
    ~Collective() override {
        if (done())
            return;
        unfinished.fetch_sub(1, std::memory_order_relaxed);
        if (announced_ && !request::held_here()) {  // it never began
            const request::Hold hold;
            announced_.reset();
        }
    }

    // The operation has agreed on NCCL already, and its call tells the report.
    void take_turn(std::unique_ptr<nccl::Flight> flight) {
        flight_ = std::move(flight);
        reported_ = true;
        order_->enter(this);
        wait_for_turn();
    }

    // Not under the lock. MPI's code.
    int agree_first(const Call& call, comm::State& comm, Presence presence) {
        kept_.emplace(call, comm.size);
        {
            const request::Hold hold;
            announced_.emplace(comm);
        }
        nccl::Work work;
        Vote vote = vote_of(call, comm, presence, work);
        if (vote.obstacle == Reason::kNone && (vote.setup || comm.nccl == nullptr))
            vote.obstacle = comm.obstacle != Reason::kNone ? comm.obstacle : Reason::kNotReady;
        if (!vote.host && vote.obstacle == Reason::kNone) {
            flight_ = std::make_unique<nccl::Flight>(std::move(work), comm.nccl);
            if (!flight_->ready())
                vote.obstacle = Reason::kNoMemory;
        }
        const int rc = cast(call, comm, vote, true, print_, mine_, all_, agreement_);
        const request::Hold hold;
        if (rc != MPI_SUCCESS)
            announced_.reset();
        else
            order_->enter(this);
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

    const std::string& why() const { return why_; }  // it failed, once done

  private:
    enum class State : std::uint8_t { kAgreeing, kWaiting, kFlying, kDeferred };

    bool advance() {
        switch (state_) {
            case State::kAgreeing:
                return order_->first(this) && agreed();
            case State::kWaiting:
                return launch();
            case State::kFlying:
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
        const int rc = real::Test(&agreement_, &flag, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && flag == 0)
            return false;
        const Verdict verdict = read(all_);
        if (rc != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks failed");
        else if (verdict.state == Verdict::State::kMismatch)
            fail_here(MPI_ERR_OTHER,
                      fmt::format("the ranks' calls do not match: here {}, another one elsewhere", in_words(print_)));
        else
            settle(route_from(kept_->call(), verdict, Reason::kNone));
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
        state_ = State::kWaiting;
        deadline_.emplace(settings::values().timeout);
    }

    bool launch() {
        if (deadline_->passed()) {
            fail_here(MPI_ERR_OTHER, "SWITCHYARD_TIMEOUT has passed before all ranks launched it");
            return true;
        }
        const bool mine = order_->first(this) && order_->arrived() && (!announced_ || announced_->may_launch());
        if (!mine || !turn_.begin(&flight_->communicator()))
            return false;
        flight_->launch();
        order_->pass_on();
        state_ = State::kFlying;
        return true;
    }

    bool fly() {
        const bool moved = flight_->step();
        if (flight_->settled())
            order_->leave(this);
        const bool late = !flight_->done() && deadline_->passed();
        if (!flight_->done() && !late)
            return moved;
        const std::string failure = late ? "SWITCHYARD_TIMEOUT has passed: all ranks had entered the call, the "
                                           "transfer did not finish"
                                         : flight_->failure();
        if (failure.empty())
            end({});
        else
            fail_here(MPI_ERR_OTHER, failure);
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
        if (flight_ != nullptr && state_ != State::kAgreeing)
            flight_->communicator().abort();
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
        turn_.end();
        announced_.reset();
        flight_.reset();
        deferred_.reset();
        kept_.reset();
        order_.reset();
        unfinished.fetch_sub(1, std::memory_order_relaxed);
        finish(std::move(outcome));
    }

    const int rank_, size_;
    std::shared_ptr<comm::Order> order_;
    const std::size_t bytes_;
    std::optional<KeptCall> kept_;
    std::optional<p2p::lanes::Announced> announced_;
    std::unique_ptr<nccl::Flight> flight_;
    std::shared_ptr<carrier::staged::Deferred> deferred_;
    Fingerprint print_;
    Ballot mine_{}, all_{};
    MPI_Request agreement_ = MPI_REQUEST_NULL;
    std::string why_;
    State state_ = State::kAgreeing;
    comm::Turn turn_;
    std::optional<request::Deadline> deadline_;
    p2p::Ledger ledger_;
    bool reported_ = false;
};

}  // namespace

bool any_begun() {
    return unfinished.load(std::memory_order_relaxed) != 0;
}

int begin_agreed(const Call& call, comm::State& comm, Presence presence) {
    auto operation = std::make_shared<Collective>(call, comm, payload_bytes(call));
    if (const int rc = operation->agree_first(call, comm, presence); rc != MPI_SUCCESS)
        return rc;
    {
        const request::Hold hold;
        request::add(operation);
    }
    return request::hand_out(std::move(operation), call.request);
}

std::string run_in_turn(const Call& call, comm::State& comm, nccl::Work work) {
    auto flight = std::make_unique<nccl::Flight>(std::move(work), comm.nccl);
    if (!flight->ready()) {
        comm.nccl->abort();
        return "no CUDA stream for NCCL";
    }
    auto operation = std::make_shared<Collective>(call, comm, 0);
    {
        const request::Hold hold;
        operation->take_turn(std::move(flight));
        request::add(operation);
    }
    request::wait_for(*operation);
    return operation->why();
}

}  // namespace swy::route
