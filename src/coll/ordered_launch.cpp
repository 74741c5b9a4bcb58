#include "coll/ordered_launch.hpp"

#include <utility>

#include "coll/pending_agreement.hpp"
#include "settings/settings.hpp"

namespace swy::coll {

OrderedLaunch::OrderedLaunch(std::unique_ptr<nccl::Operation> operation, std::shared_ptr<comm::LaunchOrder> order,
                             const comm::LaunchOrder::Launch& launch)
    : operation_(std::move(operation)),
      order_(std::move(order)),
      launch_(launch),
      deadline_(settings::values().timeout, order_->private_comm()) {}

OrderedLaunch::~OrderedLaunch() {
    if (!done_)
        abandon();
}

void OrderedLaunch::abandon() {
    operation_->communicator().abort();
    let_others();
    if (!launched_)
        order_->give_up(launch_);
}

bool OrderedLaunch::step(bool may_launch) {
    if (done_)
        return false;
    if (!launched_) {
        if (!deadline_.passed())
            return may_launch && launch();
        const int missing = order_->missing(launch_);
        abandon();
        end(not_launched(deadline_, missing));
        return true;
    }
    const bool moved = operation_->step();
    if (operation_->launch_finished())
        let_others();
    if (auto ended = nccl::ended(*operation_, deadline_)) {
        if (!operation_->done())
            abandon();
        end(std::move(*ended));
    }
    return moved || done_;
}

bool OrderedLaunch::launch() {
    if (order_->launching != nullptr || !order_->arrived(launch_) || !claim_.begin(&operation_->communicator()))
        return false;
    order_->launching = this;
    operation_->launch();
    order_->pass_token(launch_);
    launched_ = true;
    return true;
}

void OrderedLaunch::let_others() {
    if (order_->launching == this)
        order_->launching = nullptr;
}

void OrderedLaunch::end(std::string failure) {
    done_ = true;
    let_others();
    claim_.end();
    failure_ = std::move(failure);
}

}  // namespace swy::coll
