#include "coll/ordered_launch.hpp"

#include <fmt/format.h>

#include <utility>

#include "settings/settings.hpp"

namespace swy::coll {

std::string not_launched(const progress::Deadline& deadline, int missing) {
    const std::string who = missing == MPI_PROC_NULL ? "" : fmt::format(": rank {} has not launched it yet", missing);
    return fmt::format("{} before all ranks launched it{}: see that each calls MPI meanwhile, or allow more time",
                       deadline.why(), who);
}

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
