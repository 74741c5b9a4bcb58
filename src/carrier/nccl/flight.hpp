// One collective on NCCL that nobody waits for: made ready, launched, settled, recorded, done, as a state machine that
// never blocks. The router's operations own these and see to the order of launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "carrier/nccl/collectives.hpp"
#include "carrier/nccl/communicator.hpp"
#include "request/wait.hpp"

namespace swy::carrier::nccl {

class Flight {
  public:
    // `work` is prepared.
    Flight(Work work, std::shared_ptr<Communicator> communicator);
    ~Flight();  // one that was launched must be done, or its communicator aborted
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;

    // When the program makes its call: what it has queued on its streams comes first. False when a resource is lacking.
    // Others that have agreed to launch it wait for this one's part all the same: launch() then has it fail.
    bool ready();
    void launch();
    bool step();  // after launch(). True when something moved.

    // Is NCCL through with the launch, so that others may be launched on the communicator?
    bool settled() const { return state_ >= State::kRunning; }
    bool done() const { return state_ == State::kDone; }
    const std::string& failure() const { return failure_; }  // once done; "" is success, else it has been aborted
    Communicator& communicator() { return *communicator_; }

  private:
    enum class State : std::uint8_t { kNew, kLaunching, kRunning, kDone };
    void begin();
    bool advance();
    void launch_next();
    void settle(int result);
    void end(std::string failure);
    void tell_failure();

    const Work work_;
    const std::shared_ptr<Communicator> communicator_;
    device::Lane lane_;
    std::size_t launches_ = 0;  // begun
    State state_ = State::kNew;
    std::string failure_;
};

// What has become of a flight that is launched, this one or one of several members: nothing yet, or its failure, ""
// where it has none.
template <typename AnyFlight>
std::optional<std::string> ended(const AnyFlight& flight, const request::Deadline& deadline) {
    if (flight.done())
        return flight.failure();
    if (deadline.passed())
        return "SWITCHYARD_TIMEOUT has passed: all ranks had entered the call, the transfer did not finish";
    return std::nullopt;
}

}  // namespace swy::carrier::nccl
