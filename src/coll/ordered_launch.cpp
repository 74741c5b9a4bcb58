#include "coll/ordered_launch.hpp"

#include <fmt/format.h>

#include <utility>

#include "settings/settings.hpp"

namespace swy::coll {

OrderedLaunch::OrderedLaunch(std::unique_ptr<nccl::Operation> operation, std::shared_ptr<comm::LaunchOrder> order,
                             const comm::LaunchOrder::Launch& launch, Turn turn)
    : operation_(std::move(operation)),
      order_(std::move(order)),
      launch_(launch),
      turn_(turn),
      deadline_(settings::values().timeout, order_->private_comm()) {}

OrderedLaunch::~OrderedLaunch() {
    if (!done_)
        abandon("a process has given it up");
}

// The other ranks wait for this one.
void OrderedLaunch::abandon(const std::string& why) {
    if (operation_ != nullptr)
        operation_->communicator().fail(why);
    let_others();
    if (!launched_)
        order_->give_up(launch_);
}

std::string OrderedLaunch::not_launched() {
    const int missing = turn_ == Turn::kInOrder ? order_->missing(launch_) : MPI_PROC_NULL;
    const std::string who = missing == MPI_PROC_NULL ? "" : fmt::format(": rank {} has not launched it yet", missing);
    return fmt::format("{} before all ranks launched it{}: see that each calls MPI meanwhile, or allow more time",
                       deadline_.why(), who);
}

bool OrderedLaunch::step(bool may_launch) {
    if (done_)
        return false;
    if (!launched_) {
        if (!deadline_.passed())
            return may_launch && launch();
        const std::string why = not_launched();
        abandon(why);
        end(why);
        return true;
    }
    const bool moved = operation_->step();
    if (operation_->launch_finished())
        let_others();
    if (auto ended = nccl::ended(*operation_, deadline_)) {
        if (!operation_->done())
            abandon(*ended);
        end(std::move(*ended));
    }
    return moved || done_;
}

bool OrderedLaunch::has_turn() {
    return turn_ == Turn::kAtOnce || (order_->launching == nullptr && order_->arrived(launch_) &&
                                      (operation_ == nullptr || claim_.begin(&operation_->communicator())));
}

bool OrderedLaunch::launch() {
    if (!has_turn())
        return false;
    launched_ = true;
    if (operation_ != nullptr) {
        order_->launching = this;
        operation_->launch();
    }
    if (turn_ == Turn::kInOrder)
        order_->pass_token(launch_);
    if (operation_ == nullptr)
        end({});
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
