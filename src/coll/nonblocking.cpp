#include "coll/nonblocking.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "coll/agree.hpp"
#include "coll/collective_operation.hpp"
#include "coll/saved_call.hpp"
#include "comm/launch_order.hpp"
#include "nccl/operation.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "request/handle.hpp"
#include "settings/settings.hpp"
#include "staging/staged.hpp"

namespace swy::coll {
namespace {

// A collective from the call to the end of its work. Used under the engine's lock, except for its construction.
class Nonblocking final : public CollectiveOperation {
  public:
    Nonblocking(const Call& call, const comm::State& comm, std::shared_ptr<const SavedCall> kept, std::size_t bytes)
        : CollectiveOperation(call, comm.rank, comm.size, comm.order, Place::kInOrder, std::move(kept), bytes) {}

    using CollectiveOperation::prepare;

    // Starts the agreement, when the engine has the operation. Not called under the lock. Returns MPI's code.
    int agree_first(comm::State& comm, const Vote& vote) {
        auto records = std::make_shared<VoteExchange>();
        const int rc = begin(kept(), comm, vote, print_, *records);
        record_.flight().is_collective(order_->number(), print_.sequence + 1);
        const progress::Hold hold;
        if (rc != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the agreement of the ranks could not begin");
        else
            ask(comm, std::move(records), {print_.sequence});
        return rc;
    }

    // For a collective that has agreed on NCCL already, and whose caller reports it.
    void launch_agreed(std::unique_ptr<nccl::Operation> operation, const Fingerprint& print) {
        reported_ = true;
        record_.flight().forget();
        order_->enter(this);
        launch_in_order(std::move(operation), {print.sequence});
    }

    // For a collective whose ranks have agreed that their calls do not match.
    void take_part_in_comparison(const Fingerprint& print) {
        print_ = print;
        order_->enter(this);
        begin_comparison();
    }

  private:
    void decided(const Decision& decision) override {
        if (decision.state == Decision::State::kMismatch)
            begin_comparison();
        else
            take_route(route_from(decision));
    }

    std::shared_ptr<staging::Deferred> stage(Reason reason) override {
        const auto make = [this](const Operand* operands, MPI_Request* request) {
            return call_again(kept(), operands, order_->comm_for_calls(), request);
        };
        return staging::defer(kept(), make, contribution(order_->comm_for_calls()), reason, bytes());
    }

    // Starts to gather the ranks' fingerprints for the error's text, in the operation's place among those of the
    // private communicator.
    void begin_comparison() {
        comparison_ = std::make_shared<Comparison>(print_, size_);
        limit_.emplace(settings::values().timeout);
    }

    bool advance_alone() override { return comparison_ != nullptr && compared(); }

    // A rank whose call is another one altogether may never bring its fingerprint.
    bool compared() {
        if (limit_->passed()) {
            order_->leave(this);
            if (comm::State* const state = order_->owner(); state != nullptr && begun())
                state->given_up = true;
            progress::keep_until(std::exchange(comparison_->request, MPI_REQUEST_NULL), comparison_);
            not_compared();
            return true;
        }
        if (!begun()) {
            if (!first())
                return false;
            const int rc = comparison_->begin(order_->private_comm());
            order_->leave(this);
            if (rc != MPI_SUCCESS)
                not_compared();
            return true;
        }
        int flag = 0;
        if (!progress::may_poll() ||
            (real::Test(&comparison_->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == 0))
            return false;
        fail_here(MPI_ERR_OTHER, compare(comparison_->all));
        return true;
    }
    bool begun() const { return comparison_->request != MPI_REQUEST_NULL; }
    void not_compared() {
        fail_here(MPI_ERR_OTHER, fmt::format("the ranks' calls do not match: here {}", in_words(print_)));
    }

    // What MPI works on.
    struct Comparison {
        Comparison(const Fingerprint& print, int ranks) : mine(print), all(static_cast<std::size_t>(ranks)) {}
        int begin(MPI_Comm comm) {
            return real::Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm, &request);
        }
        const Fingerprint mine;
        std::vector<Fingerprint> all;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    Fingerprint print_;
    std::shared_ptr<Comparison> comparison_;  // null where the calls match
    std::optional<progress::Deadline> limit_;
};

}  // namespace

int start_agreed(const Call& call, comm::State& comm, Presence presence) {
    auto operation = std::make_shared<Nonblocking>(call, comm, std::make_shared<SavedCall>(call), payload_bytes(call));
    const Vote vote = operation->prepare(comm, presence);
    {
        const progress::Hold hold;
        progress::add(operation);
    }
    if (const int rc = operation->agree_first(comm, vote); rc != MPI_SUCCESS)
        return rc;
    return request::hand_out(std::move(operation), call.request);
}

std::string run_ordered(const Call& call, comm::State& comm, const Fingerprint& print, nccl::Work work) {
    auto on_nccl = std::make_unique<nccl::Operation>(nccl::collective(std::move(work)), comm.nccl,
                                                     nccl::Operation::On::kOwnStreams);
    on_nccl->ready();  // if not, the operation fails at its launch, for which the other ranks wait
    auto operation = std::make_shared<Nonblocking>(call, comm, nullptr, 0);
    {
        const progress::Hold hold;
        operation->launch_agreed(std::move(on_nccl), print);
        progress::add(operation);
    }
    progress::wait_for(*operation);
    return operation->why();
}

std::string describe_with_nonblocking(const Call& call, comm::State& comm, const Fingerprint& print) {
    auto operation = std::make_shared<Nonblocking>(call, comm, nullptr, 0);
    {
        const progress::Hold hold;
        operation->take_part_in_comparison(print);
        progress::add(operation);
    }
    progress::wait_for(*operation);
    return operation->why();
}

}  // namespace swy::coll
