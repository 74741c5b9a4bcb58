#include "route/begun.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "carrier/nccl/flight.hpp"
#include "carrier/staged/staged.hpp"
#include "comm/order.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "route/agreed.hpp"
#include "route/kept_call.hpp"

namespace swy::route {
namespace {

namespace nccl = carrier::nccl;

// From the call to the end of its work. Under the engine's lock but for its making.
class Begun final : public Agreed {
  public:
    Begun(const Call& call, const comm::State& comm, std::shared_ptr<const KeptCall> kept, std::size_t bytes)
        : Agreed(call, comm.rank, comm.size, comm.order, Place::kInOrder, std::move(kept), bytes) {}

    using Agreed::prepare;

    // The engine has it. Not under the lock. MPI's code.
    int agree_first(comm::State& comm, const Vote& vote) {
        auto ballots = std::make_shared<Ballots>();
        const int rc = begin(kept(), comm, vote, print_, ballots->mine, ballots->all, ballots->request);
        const request::Hold hold;
        if (rc != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks could not begin");
        else
            ask(comm, std::move(ballots), {print_.sequence});
        return rc;
    }

    // Has agreed on NCCL already, and its call tells the report.
    void take_turn(std::unique_ptr<nccl::Flight> flight, const Fingerprint& print) {
        reported_ = true;
        order_->enter(this);
        wait_for_turn(std::move(flight), {print.sequence});
    }

    // Has agreed that the calls do not match.
    void take_part_in_comparison(const Fingerprint& print) {
        print_ = print;
        order_->enter(this);
        begin_comparison();
    }

  private:
    void heard(const Verdict& verdict) override {
        if (verdict.state == Verdict::State::kMismatch)
            begin_comparison();
        else
            settle(route_from(kept(), verdict, Reason::kNone));
    }

    std::shared_ptr<carrier::staged::Deferred> stage(Reason reason) override {
        const auto make = [this](const Operand* operands, MPI_Request* request) {
            return call_again(kept(), operands, order_->shadow(), request);
        };
        return carrier::staged::defer(kept(), make, reason, bytes());
    }

    // For the error's text, in the operation's place among those of the private communicator.
    void begin_comparison() { prints_.resize(static_cast<std::size_t>(size_)); }

    bool advance_alone() override { return !prints_.empty() && compared(); }

    bool compared() {
        if (comparison_ == MPI_REQUEST_NULL) {
            if (!first())
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

    Fingerprint print_;
    MPI_Request comparison_ = MPI_REQUEST_NULL;
    std::vector<Fingerprint> prints_;
};

}  // namespace

int begin_agreed(const Call& call, comm::State& comm, Presence presence) {
    auto operation =
        std::make_shared<Begun>(call, comm, std::make_shared<KeptCall>(call, comm.size), payload_bytes(call));
    const Vote vote = operation->prepare(comm, presence);
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
    auto operation = std::make_shared<Begun>(call, comm, nullptr, 0);
    {
        const request::Hold hold;
        operation->take_turn(std::move(flight), print);
        request::add(operation);
    }
    request::wait_for(*operation);
    return operation->why();
}

std::string describe_with_begun(const Call& call, comm::State& comm, const Fingerprint& print) {
    auto operation = std::make_shared<Begun>(call, comm, nullptr, 0);
    {
        const request::Hold hold;
        operation->take_part_in_comparison(print);
        request::add(operation);
    }
    request::wait_for(*operation);
    return operation->why();
}

}  // namespace swy::route
