// One transfer between two processes over an NCCL communicator, as a state machine that never blocks: launched,
// settled, recorded, done. A process may have several members in it, one for each of its devices: all that the transfer
// sends or receives is one group then. p2p owns these and sees to their order: what two ranks launch on one
// communicator must match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "carrier/nccl/communicator.hpp"
#include "device/device.hpp"

namespace swy::carrier::nccl {

// What one ncclSend or ncclRecv carries: of a member of this process, by its number among them, with a rank of the
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
        kGreeting,  // nothing in both directions: NCCL connects two ranks when they first meet, and blocks meanwhile
    };

    using Members = std::vector<std::shared_ptr<Communicator>>;

    // The pieces are in the order of their members; those of a greeting have no data. With several members nobody else
    // aborts these while a step is under way.
    PointToPoint(Members members, Kind kind, std::vector<Piece> pieces);
    ~PointToPoint();  // one that was launched must be done, or its communicator aborted
    PointToPoint(const PointToPoint&) = delete;
    PointToPoint& operator=(const PointToPoint&) = delete;

    // Queues it behind what the program had queued before. On the communicator's own stream, or, where others use that
    // too, on one of its own (one member alone): NCCL keeps the order of launches across streams.
    void launch(bool own_stream);

    // Goes on after launch(). True when something moved.
    bool step();

    // Is NCCL through with the launch, so that others may be launched on the communicator?
    bool settled() const { return state_ >= State::kRunning; }
    bool done() const { return state_ == State::kDone; }
    const std::string& failure() const { return failure_; }  // once done; "" is success

  private:
    enum class State : std::uint8_t { kNew, kLaunching, kRunning, kDone };
    device::Lane& lane(std::size_t member) { return own_ ? own_ : members_[member]->lane(); }
    bool usable() const;
    bool first_of_member(std::size_t piece) const;
    std::string prepare(bool own_stream);
    int call(const Piece& piece);
    int call();
    void settle(int result, std::size_t member);
    bool finished();
    void end(std::string failure);

    const Members members_;
    const Kind kind_;
    const std::vector<Piece> pieces_;
    device::Lane own_;
    State state_ = State::kNew;
    std::string failure_;
};

}  // namespace swy::carrier::nccl
