// One transfer between two ranks of an NCCL communicator, as a state machine that never blocks: launched, settled,
// recorded, done. p2p owns these and sees to their order: what the two ranks launch on one communicator must match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "carrier/nccl/communicator.hpp"
#include "device/device.hpp"

namespace swy::carrier::nccl {

class PointToPoint {
  public:
    enum class Kind : std::uint8_t {
        kSend,
        kReceive,
        kGreeting,  // nothing in both directions: NCCL connects two ranks when they first meet, and blocks meanwhile
    };

    // `peer` is a rank of the communicator.
    PointToPoint(std::shared_ptr<Communicator> communicator, Kind kind, void* data, std::size_t bytes, int peer);
    ~PointToPoint();  // one that was launched must be done, or its communicator aborted
    PointToPoint(const PointToPoint&) = delete;
    PointToPoint& operator=(const PointToPoint&) = delete;

    // Queues it behind what the program had queued before. On the communicator's own stream, or, where others use that
    // too, on one of its own: NCCL keeps the order of launches across streams.
    void launch(bool own_stream);

    // Goes on after launch(). True when something moved.
    bool step();

    // Is NCCL through with the launch, so that others may be launched on the communicator?
    bool settled() const { return state_ >= State::kRunning; }
    bool done() const { return state_ == State::kDone; }
    const std::string& failure() const { return failure_; }  // once done; "" is success

  private:
    enum class State : std::uint8_t { kNew, kLaunching, kRunning, kDone };
    device::Lane& lane() { return own_ ? own_ : communicator_->lane(); }
    std::string prepare(bool own_stream);
    int call();
    void settle(int result);
    void end(std::string failure);

    const std::shared_ptr<Communicator> communicator_;
    const Kind kind_;
    void* const data_;
    const std::size_t bytes_;
    const int peer_;
    device::Lane own_;
    State state_ = State::kNew;
    std::string failure_;
};

}  // namespace swy::carrier::nccl
