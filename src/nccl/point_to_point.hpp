// One transfer between two processes over an NCCL communicator, as a state machine that never blocks: launched, running
// (NCCL has put it on the stream), done. A process may have several members in the communicator, one for each of its
// devices: all that the transfer sends or receives is then one group. p2p owns these and determines their order: the
// launches of two ranks on one communicator must match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "nccl/communicator.hpp"

namespace swy::nccl {

// One ncclSend or ncclRecv: between a member of this process, given by its index among them, and a rank of the
// communicator.
struct Piece {
    std::size_t member = 0;
    int peer = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
};

class PointToPoint {
  public:
    enum class Kind : std::uint8_t {
        kSend,
        kReceive,
        // Sends no data in both directions: NCCL connects two ranks at their first operation, and blocks meanwhile.
        kGreeting,
    };

    using Members = std::vector<std::shared_ptr<Communicator>>;

    // The pieces are in the order of their members; those of a greeting have no data. With several members, nobody else
    // may abort them while a step is under way.
    PointToPoint(Members members, Kind kind, std::vector<Piece> pieces);
    ~PointToPoint();  // one that was launched must be done, or its communicator aborted
    PointToPoint(const PointToPoint&) = delete;
    PointToPoint& operator=(const PointToPoint&) = delete;

    // Queues the transfer behind what the program had queued before. It uses the communicator's own stream, or, where
    // other operations use that too, a stream of its own (with one member only): NCCL keeps the order of launches
    // across streams.
    void launch(bool own_stream);

    // Makes progress after launch(). Returns true when something changed.
    bool step();

    // Tells whether NCCL has finished the launch, so that other operations may be launched on the communicator.
    bool launch_finished() const { return state_ >= State::kRunning; }
    bool done() const { return state_ == State::kDone; }
    const std::string& failure() const { return failure_; }  // valid once done(); "" is success

  private:
    enum class State : std::uint8_t { kNew, kLaunching, kRunning, kDone };
    device::Stream& device_stream(std::size_t member) { return own_ ? own_ : members_[member]->device_stream(); }
    bool usable() const;
    bool first_of_member(std::size_t piece) const;
    std::string prepare(bool own_stream);
    int call(const Piece& piece);
    int call();
    void launch_returned(int result, std::size_t member);
    bool finished(device::Result& failed);
    void end(std::string failure);

    const Members members_;
    const Kind kind_;
    const std::vector<Piece> pieces_;
    device::Stream own_;
    State state_ = State::kNew;
    std::string failure_;
};

}  // namespace swy::nccl
