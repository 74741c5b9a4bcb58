#include "route/agreed.hpp"

#include <utility>

#include "request/engine.hpp"
#include "settings/settings.hpp"

namespace swy::route {

namespace nccl = carrier::nccl;

Agreed::Agreed(const Call& call, int rank, int size, std::shared_ptr<comm::Order> order, Place place,
               std::shared_ptr<const KeptCall> kept, std::size_t bytes)
    : Collective(call.id, call.owner, rank, size),
      order_(std::move(order)),
      place_(place),
      bytes_(bytes),
      kept_(std::move(kept)) {}

Agreed::~Agreed() {
    if (done())
        return;
    const request::Hold hold;  // its making has failed
    order_->leave(this);
    announced_.reset();
}

Vote Agreed::prepare(comm::State& comm, Presence presence) {
    under_way_.emplace(UnderWay::Kind::kBegun);
    {
        const request::Hold hold;
        announced_.emplace(comm);
        if (place_ == Place::kInOrder)
            order_->enter(this);
    }
    std::optional<nccl::Work> work;
    Vote vote = vote_of(kept(), comm, presence, *under_way_, work);
    if (vote.obstacle == Reason::kNone && (vote.setup != comm::Setup::kNone || comm.nccl == nullptr))
        vote.obstacle = comm.obstacle != Reason::kNone ? comm.obstacle : Reason::kNotReady;
    if (!vote.host && vote.obstacle == Reason::kNone) {
        flight_ = std::make_unique<nccl::Flight>(std::move(*work), comm.nccl);
        if (!flight_->ready())
            vote.obstacle = Reason::kNoMemory;
    }
    return vote;
}

std::uint64_t Agreed::prepared_for() const {
    return flight_ != nullptr ? flight_->communicator().id() : 0;
}

void Agreed::ask(const comm::State& comm, std::shared_ptr<Ballots> ballots, const comm::Order::Launch& launch) {
    launch_ = launch;
    ballots_ = std::move(ballots);
    const double seconds = settings::values().timeout;
    const comm::Undertaking what = seconds > 0 ? name_of(*order_, launch) : 0;
    if (place_ == Place::kInOrder)
        asking_.emplace(comm, ballots_, what, seconds, kEntered, launch.number + 1);
    else
        asking_.emplace(comm, ballots_, what, seconds, "started it");
    ++order_->agreements;
}

bool Agreed::advance() {
    if (asking_.has_value())
        return first() && answered();
    if (in_turn_.has_value())
        return fly();
    return deferred_ != nullptr ? follow() : advance_alone();
}

bool Agreed::answered() {
    const std::optional<std::string> failure = asking_->step();
    if (!failure.has_value())
        return false;
    --order_->agreements;
    ledger_.end_part("agreement");
    if (failure->empty()) {
        asking_.reset();
        heard(read(ballots_->all));
    } else {
        fail_here(MPI_ERR_OTHER, *failure);
    }
    return true;
}

void Agreed::settle(const Route& route) {
    ledger_.route(route.carrier, route.reason);
    if (route.carrier == Carrier::kNccl)
        return wait_for_turn(std::move(flight_), launch_);
    flight_.reset();
    announced_.reset();
    deferred_ = stage(route.reason);
}

void Agreed::wait_for_turn(std::unique_ptr<nccl::Flight> flight, const comm::Order::Launch& launch) {
    ledger_.route(Carrier::kNccl, Reason::kNone);
    in_turn_.emplace(std::move(flight), order_, launch);
}

bool Agreed::fly() {
    const bool moved = in_turn_->step(first() && (!announced_ || announced_->may_launch()));
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

bool Agreed::follow() {
    const bool moved = deferred_->step();
    if (deferred_->called())
        order_->leave(this);
    if (!deferred_->done())
        return moved;
    reported_ = true;  // by itself
    end(deferred_->outcome());
    return true;
}

void Agreed::failing(const std::string&) {
    if (asking_.has_value())
        order_->give_up(launch_);
}

void Agreed::end(request::Outcome outcome) {
    if (outcome.mpi_class == MPI_SUCCESS && !reported_)
        ledger_.close(call(), bytes_);
    order_->leave(this);
    asking_.reset();
    in_turn_.reset();
    announced_.reset();
    flight_.reset();
    deferred_.reset();
    kept_.reset();
    order_.reset();
    under_way_.reset();
    finish(std::move(outcome));
}

}  // namespace swy::route
