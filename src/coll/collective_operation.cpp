#include "coll/collective_operation.hpp"

#include <fmt/format.h>

#include <utility>

#include "comm/collective_setup.hpp"
#include "error/required.hpp"
#include "progress/engine.hpp"
#include "settings/settings.hpp"

namespace swy::coll {

CollectiveOperation::CollectiveOperation(const Call& call, int rank, int size, std::shared_ptr<comm::LaunchOrder> order,
                                         Place place, std::shared_ptr<const SavedCall> kept, std::size_t bytes)
    : Collective(call.id, call.owner, rank, size),
      order_(std::move(order)),
      place_(place),
      bytes_(bytes),
      kept_(std::move(kept)) {}

CollectiveOperation::~CollectiveOperation() {
    if (done())
        return;
    const progress::Hold hold;  // its creation or its start has failed
    order_->leave(this);
    announced_.reset();
}

Vote CollectiveOperation::prepare(comm::State& comm, Presence presence) {
    under_way_.emplace(ConcurrentCollectives::Kind::kNonblocking);
    comm::adopt_setup(comm);
    bool awaits_lower_rank = false;
    {
        const progress::Hold hold;
        announced_.emplace(comm);
        awaits_lower_rank = announced_->awaits_lower_rank();
        if (place_ == Place::kInOrder)
            order_->enter(this);
    }
    std::optional<nccl::Work> work;
    Vote vote = vote_of(kept(), comm, presence, *under_way_, work);
    if (work.has_value())
        location_ = work->location;
    if (vote.needs_setup || (vote.obstacle == Reason::kNone && awaits_lower_rank))
        vote.obstacle = Reason::kNotReady;
    if (!vote.host && vote.obstacle == Reason::kNone) {
        operation_ = std::make_unique<nccl::Operation>(nccl::collective(std::move(*work)), comm.nccl,
                                                       nccl::Operation::On::kOwnStreams);
        if (!operation_->ready())
            vote.obstacle = Reason::kNoMemory;
    }
    return vote;
}

std::uint64_t CollectiveOperation::prepared_for() const {
    return operation_ != nullptr ? operation_->communicator().id() : 0;
}

void CollectiveOperation::ask(comm::State& comm, std::shared_ptr<VoteExchange> records,
                              const comm::LaunchOrder::Launch& launch) {
    launch_ = launch;
    records_ = std::move(records);
    if (place_ == Place::kInOrder)
        agreement_.emplace(comm, records_, order_->id_of(launch), kEntered, launch.number + 1);
    else
        agreement_.emplace(comm, records_, order_->id_of(launch), "started it");
    ++order_->agreements;
}

bool CollectiveOperation::advance() {
    if (agreement_.has_value())
        return first() && answered();
    if (ordered_launch_.has_value())
        return step_launch();
    return deferred_ != nullptr ? step_staged() : advance_alone();
}

std::string CollectiveOperation::waits_for() const {
    const std::string what = agreement_.has_value()         ? agreement_->waits_for()
                             : !ordered_launch_.has_value() ? "its staging through host memory has not ended"
                             : ordered_launch_->launched()  ? "NCCL has not ended it"
                                                            : "its turn to be launched on NCCL has not come";
    return fmt::format("{} bytes: {}", bytes_, what);
}

bool CollectiveOperation::answered() {
    const std::optional<std::string> failure = agreement_->step();
    if (!failure.has_value())
        return false;
    --order_->agreements;
    record_.end_part("agreement");
    if (failure->empty()) {
        agreement_.reset();
        Decision decision = read(records_->all);
        if (decision.needs_setup && all_can(decision)) {
            comm::begin_setup(*order_->owner(), location_, decision.setups);
            decision.obstacle = Reason::kNotReady;
        }
        decided(decision);
    } else {
        fail_here(MPI_ERR_OTHER, *failure);
    }
    return true;
}

void CollectiveOperation::take_route(const Route& route) {
    if (const std::string why = error::refusal(route.reason); !why.empty())
        return fail_here(MPI_ERR_OTHER, why);
    if (route.carrier == Carrier::kNccl)
        return launch_in_order(std::move(operation_), launch_);
    operation_.reset();
    announced_.reset();
    deferred_ = stage(route.reason);
}

comm::Contribution CollectiveOperation::contribution(MPI_Comm comm) const {
    return {comm, comm::start_of(order_->id_of(launch_), 0)};
}

void CollectiveOperation::launch_in_order(std::unique_ptr<nccl::Operation> operation,
                                          const comm::LaunchOrder::Launch& launch) {
    record_.route(Carrier::kNccl, Reason::kNone, bytes_);
    ordered_launch_.emplace(std::move(operation), order_, launch);
}

bool CollectiveOperation::step_launch() {
    const bool moved = ordered_launch_->step(first() && (!announced_ || announced_->may_launch()));
    if (ordered_launch_->launch_finished())
        order_->leave(this);
    if (!ordered_launch_->done())
        return moved;
    if (const std::string failure = ordered_launch_->failure(); !failure.empty())
        fail_here(MPI_ERR_OTHER, failure);
    else
        end({});
    return true;
}

bool CollectiveOperation::step_staged() {
    const bool moved = deferred_->step();
    if (deferred_->called())
        order_->leave(this);
    if (!deferred_->done())
        return moved;
    reported_ = true;  // the staged call has reported itself
    end(deferred_->outcome());
    return true;
}

void CollectiveOperation::failing(const std::string&) {
    if (agreement_.has_value())
        order_->give_up(launch_);
}

void CollectiveOperation::end(progress::Outcome outcome) {
    if (outcome.mpi_class == MPI_SUCCESS && !reported_)
        record_.close(bytes_);
    order_->leave(this);
    agreement_.reset();
    ordered_launch_.reset();
    announced_.reset();
    operation_.reset();
    deferred_.reset();
    kept_.reset();
    order_.reset();
    under_way_.reset();
    finish(std::move(outcome));
}

}  // namespace swy::coll
