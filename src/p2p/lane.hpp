// One process's half of a lane: the NCCL communicator of two ranks from its offer to its end, and the transfers on it
// in their turn. Each end has one device, or several where the messages have several buffers: NCCL's ranks are those of
// the sender, then those of the receiver. lane_cache.cpp keeps the halves and hears for them; all under the engine's
// lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carrier/nccl/communicator.hpp"
#include "carrier/nccl/local_members.hpp"
#include "carrier/nccl/point_to_point.hpp"
#include "device/device.hpp"
#include "p2p/control.hpp"
#include "p2p/payload.hpp"
#include "p2p/transfer.hpp"
#include "request/wait.hpp"

namespace swy::p2p::lanes {

// What Word::kLane is about, in Control::flag.
enum class LaneWord : std::uint8_t {
    kAccepted,     // sender: it has room for the lane that was offered; its devices are in `unique`
    kDeclined,     // sender: it has none
    kBegin,        // receiver: NCCL's unique id is in `unique`
    kLaunched,     // either: it has launched the next operation on the lane, or on the NCCL communicator of that id
    kClosing,      // receiver: it ends the lane; no transfer will follow
    kPleaseClose,  // sender: it needs the room
    kBroken,       // either: its half has failed, or NCCL cannot serve the devices of both
};
void tell(int rank, LaneWord word, std::uint64_t lane, const carrier::nccl::UniqueId* unique = nullptr);

// Who launches first. A kernel of NCCL's runs on its GPU until the peer's has come, and a program may wait for its
// whole GPU outside MPI (cudaDeviceSynchronize), where this process does nothing for its peers. If two ranks each
// launched one of two operations and waited so, neither would launch the other one. Therefore the lower rank of
// MPI_COMM_WORLD
// launches first and says so, the other one launches then: what runs on a GPU waits for processes of higher ranks alone,
// so in no circle, and the highest rank's GPU waits for nobody.
bool launches_first(int peer);

// Something that needs the engine although no operation does.
class Interest {
  public:
    Interest() = default;
    ~Interest() { keep(false); }
    Interest(const Interest&) = delete;
    Interest& operator=(const Interest&) = delete;
    void keep(bool wanted);

  private:
    bool kept_ = false;
};

class LaneTransfer;

using Gpu = std::array<std::uint8_t, 16>;

class Half : public std::enable_shared_from_this<Half> {
  public:
    enum class State : std::uint8_t {
        kOffered,   // room is kept for it; the other end has to answer
        kMaking,    // NCCL makes the communicator
        kGreeting,  // the first operation, of no bytes, in which NCCL connects the two
        kReady,
        kEnding,
        kGone,
    };
    enum class Role : std::uint8_t { kReceiver, kSender };

    // `gpu` is the name of the sender's devices; there are `others` devices at the other end.
    Half(std::uint64_t id, Role role, int peer, const Gpu& gpu, std::span<const device::Location> devices,
         std::size_t others);

    const std::uint64_t id;
    const Role role;
    const int peer;  // in MPI_COMM_WORLD
    const Gpu gpu;
    const std::vector<int> ordinals;  // of this end's devices
    const std::size_t others;
    bool may_share_gpus = true;   // with the other end, which has said nothing of its devices yet
    std::uint64_t last_used = 0;  // in transfers of this process
    bool asked_to_close = false;

    State state() const { return state_; }
    bool half_made() const { return state_ < State::kReady; }
    bool idle() const { return state_ == State::kReady && queue_.empty() && !closing_; }
    bool alive() const;  // its device has not been reset
    bool was_ready() const { return was_ready_; }
    bool broken() const { return broken_; }
    bool told() const { return told_; }  // the other end, of that

    void begin(const carrier::nccl::UniqueId& unique);
    bool step();
    void peer_launched() { ++launched_there_; }

    // The next transfer, of `bytes` between the payload and runs of `part` bytes at the other end. `told`: that end
    // knows that it is launched at once.
    std::unique_ptr<Transfer> add(const Payload& payload, std::size_t bytes, std::size_t part, bool told);
    bool launches_at_once() const { return idle() && launches_first(peer); }

    void close();    // ends when what is under way is done
    void decline();  // never made
    // Fails, with everything on it. The other end hears of it unless it has told.
    void break_off(const std::string& why, bool tell_peer = true);
    void stop();  // MPI_Finalize: the other end does the same

  private:
    friend class LaneTransfer;
    void enter(State state);
    bool make();
    bool run();
    bool may_launch() const { return launches_first(peer) || launched_there_ > launched_here_; }
    std::vector<carrier::nccl::Piece> greetings() const;
    int rank_there(std::size_t device) const;
    void launch(bool told);
    void begin_end();

    const std::vector<device::Context> contexts_;
    State state_ = State::kOffered;
    Interest interest_;
    request::Deadline deadline_;
    std::shared_ptr<carrier::nccl::LocalMembers> communicators_;
    std::unique_ptr<carrier::nccl::PointToPoint> operation_;  // one at a time: see run()
    std::deque<LaneTransfer*> queue_;
    std::uint64_t launched_here_ = 0, launched_there_ = 0;
    bool closing_ = false, was_ready_ = false, broken_ = false, told_ = false;
};

}  // namespace swy::p2p::lanes
