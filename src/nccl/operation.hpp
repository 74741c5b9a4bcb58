// One non-blocking collective on NCCL as a state machine that never blocks: prepared, launched, running (NCCL has put
// it on the stream), done. The operations of src/coll own these and determine the order of launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "nccl/collectives.hpp"
#include "nccl/communicator.hpp"
#include "progress/wait.hpp"

namespace swy::nccl {

class Operation {
  public:
    // `work` comes from prepare().
    Operation(Work work, std::shared_ptr<Communicator> communicator);
    ~Operation();  // one that was launched must be done, or its communicator aborted
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    // To be called when the program makes its call: the operation runs after what the program has queued on its
    // streams. Returns false when a resource is missing. Other ranks that have agreed to launch it wait for this rank's
    // part all the same: launch() then makes it fail.
    bool ready();
    void launch();
    bool step();  // to be called after launch(); true when something changed

    // Tells whether NCCL has finished the launch, so that other operations may be launched on the communicator.
    bool launch_finished() const { return state_ >= State::kRunning; }
    bool done() const { return state_ == State::kDone; }
    // Valid once done(); "" is success, otherwise the communicator has been aborted.
    const std::string& failure() const { return failure_; }
    Communicator& communicator() { return *communicator_; }

  private:
    enum class State : std::uint8_t { kNew, kLaunching, kRunning, kDone };
    void begin();
    bool advance();
    void launch_next();
    void launch_returned(int result);
    void end(std::string failure);
    void tell_failure();

    const Work work_;
    const std::shared_ptr<Communicator> communicator_;
    device::Stream device_stream_;
    std::size_t launches_ = 0;  // launches started
    State state_ = State::kNew;
    std::string failure_;
};

// The outcome of a launched operation (Operation or MembersOperation): nothing while it runs, otherwise its failure, ""
// on success.
template <typename AnyOperation>
std::optional<std::string> ended(const AnyOperation& operation, const progress::Deadline& deadline) {
    if (operation.done())
        return operation.failure();
    if (deadline.passed())
        return "SWITCHYARD_TIMEOUT has passed: all ranks had entered the call, the transfer did not finish";
    return std::nullopt;
}

}  // namespace swy::nccl
