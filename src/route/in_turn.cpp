#include "route/in_turn.hpp"

#include <utility>

#include "route/arrivals.hpp"
#include "settings/settings.hpp"

namespace swy::route {

InTurn::InTurn(std::unique_ptr<carrier::nccl::Flight> flight, std::shared_ptr<comm::Order> order,
               const comm::Order::Launch& launch)
    : flight_(std::move(flight)), order_(std::move(order)), launch_(launch), deadline_(settings::values().timeout) {}

InTurn::~InTurn() {
    if (!done_)
        abandon();
}

void InTurn::abandon() {
    flight_->communicator().abort();
    let_others();
    if (!launched_)
        order_->give_up(launch_);
}

bool InTurn::step(bool may_launch) {
    if (done_)
        return false;
    if (!launched_) {
        if (!deadline_.passed())
            return may_launch && launch();
        const int missing = order_->missing(launch_);
        abandon();
        end(not_launched(missing));
        return true;
    }
    const bool moved = flight_->step();
    if (flight_->settled())
        let_others();
    if (auto ended = carrier::nccl::ended(*flight_, deadline_)) {
        if (!flight_->done())
            abandon();
        end(std::move(*ended));
    }
    return moved || done_;
}

bool InTurn::launch() {
    if (order_->launching != nullptr || !order_->arrived(launch_) || !turn_.begin(&flight_->communicator()))
        return false;
    order_->launching = this;
    flight_->launch();
    order_->pass_on(launch_);
    launched_ = true;
    return true;
}

void InTurn::let_others() {
    if (order_->launching == this)
        order_->launching = nullptr;
}

void InTurn::end(std::string failure) {
    done_ = true;
    let_others();
    turn_.end();
    failure_ = std::move(failure);
}

}  // namespace swy::route
