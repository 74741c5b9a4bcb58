// An operation on NCCL from the agreement to its end: it waits until it comes next in launch order and may claim the
// GPUs, is launched, and is stepped until it ends. For the operations of src/coll, under the engine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/launch_order.hpp"
#include "nccl/operation.hpp"
#include "progress/wait.hpp"

namespace swy::coll {

class OrderedLaunch {
  public:
    // kAtOnce: all ranks launch it at once, since nothing else is under way on any of them.
    enum class Turn : std::uint8_t { kInOrder, kAtOnce };
    // `operation` is ready; null: this process has no part in it, and passes its token on. It has SWITCHYARD_TIMEOUT
    // from now on.
    OrderedLaunch(std::unique_ptr<nccl::Operation> operation, std::shared_ptr<comm::LaunchOrder> order,
                  const comm::LaunchOrder::Launch& launch, Turn turn = Turn::kInOrder);
    ~OrderedLaunch();  // aborts an operation that is not done: the other ranks cannot do without this one
    OrderedLaunch(const OrderedLaunch&) = delete;
    OrderedLaunch& operator=(const OrderedLaunch&) = delete;

    // Never blocks. `may_launch`: nothing but the launch order and other communicators' operations is in the way.
    // Returns true when something moved.
    bool step(bool may_launch);

    // Tells whether other operations may be launched after it.
    bool launch_finished() const { return launched_ && (operation_ == nullptr || operation_->launch_finished()); }
    bool launched() const { return launched_; }
    bool done() const { return done_; }
    const std::string& failure() const { return failure_; }  // once done; "" is success, else it has been aborted

  private:
    bool launch();
    bool has_turn();
    std::string not_launched();
    void end(std::string failure);
    void abandon(const std::string& why);
    void let_others();

    const std::unique_ptr<nccl::Operation> operation_;
    const std::shared_ptr<comm::LaunchOrder> order_;
    const comm::LaunchOrder::Launch launch_;
    const Turn turn_;
    const progress::Deadline deadline_;
    comm::GpuClaim claim_;
    bool launched_ = false, done_ = false;
    std::string failure_;
};

}  // namespace swy::coll
