// This process's end of a pair communicator, the NCCL communicator of two ranks for point-to-point, from its offer to
// its end, and the transfers on it in their order. Each end has one device, or several where the messages have several
// buffers: NCCL's ranks are those of the sender, then those of the receiver. pair_comm_cache.cpp owns the pair
// communicators and receives their control messages. All of this runs under the engine's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "nccl/communicator.hpp"
#include "nccl/operation.hpp"
#include "nccl/transfer.hpp"
#include "p2p/control.hpp"
#include "p2p/multiprocessors.hpp"
#include "pack/payload.hpp"
#include "progress/wait.hpp"
#include "staging/transfer.hpp"

namespace swy::p2p::pair_comms {

// What a control message of MessageType::kPairComm says, in Control::flag.
enum class PairCommMessage : std::uint8_t {
    kAccepted,     // sender: it has room for the pair communicator that was offered; its devices are in `content`
    kDeclined,     // sender: it has no room
    kBegin,        // receiver: NCCL's unique id is in `content`
    kLaunched,     // either: it has launched the next operation on the pair communicator, or the parent, of that id
    kClosing,      // receiver: it ends the pair communicator; no transfer will follow
    kPleaseClose,  // sender: it needs the room
    kBroken,       // either: its end has failed, or NCCL cannot serve the devices of both
};
// `channels` goes with kAccepted and kBegin.
void tell(int rank, PairCommMessage word, std::uint64_t pair_comm, const nccl::UniqueId* unique = nullptr,
          int channels = 0);

// Which rank launches first. An NCCL kernel runs on its GPU until the peer's kernel has started, and a program may wait
// for its whole GPU outside MPI (cudaDeviceSynchronize), where this process does nothing for its peers. If two ranks
// each launched one of two operations and waited so, neither would launch the other one. Therefore the lower rank of
// MPI_COMM_WORLD launches first and says so, and the other one launches then: what runs on a GPU waits only for
// processes of higher ranks, so there is no circle, and the highest rank's GPU waits for nobody.
bool launches_first(int peer);

// Keeps the engine running for something that is no operation.
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

class PairCommTransfer;

using Gpu = std::array<std::uint8_t, 16>;

class PairComm : public std::enable_shared_from_this<PairComm> {
  public:
    enum class State : std::uint8_t {
        kOffered,   // room is reserved; the other end has yet to answer
        kMaking,    // NCCL is creating the communicator
        kGreeting,  // the first operation, of no bytes, in which NCCL connects the two ranks
        kReady,
        kEnding,
        kGone,
    };
    enum class Role : std::uint8_t { kReceiver, kSender };

    // `gpu` is the name of the sender's devices; there are `others` devices at the other end.
    PairComm(std::uint64_t id, Role role, int peer, const Gpu& gpu, std::span<const device::Location> devices,
             std::size_t others);

    const std::uint64_t id;
    const Role role;
    const int peer;  // in MPI_COMM_WORLD
    const Gpu gpu;
    const std::vector<int> ordinals;  // of this end's devices
    const std::size_t others;
    int channels = 0;             // as many as this end allows
    bool may_share_gpus = true;   // with the other end, whose devices are not known yet
    std::uint64_t last_used = 0;  // count of transfers of this process at its last use
    bool asked_to_close = false;

    State state() const { return state_; }
    bool half_made() const { return state_ < State::kReady; }
    bool idle() const { return state_ == State::kReady && queue_.empty() && !closing_; }
    bool alive() const;  // false when a device of this end was reset
    bool was_ready() const { return was_ready_; }
    bool broken() const { return broken_; }
    bool told() const { return told_; }  // whether the other end has been told so

    void begin(const nccl::UniqueId& unique, int channels);
    bool step();
    void peer_launched() { ++launched_there_; }

    // Queues a transfer of `bytes` between the payload and runs of `part` bytes at the other end. `told`: the other end
    // knows already that this transfer is launched at once.
    std::unique_ptr<staging::Transfer> add(const pack::Payload& payload, std::size_t bytes, std::size_t part,
                                           bool told);
    // Tells whether a transfer that is added now is launched at once; the room that it needs on the GPU is kept for it.
    bool launches_at_once() { return idle() && launches_first(peer) && room_.begin(ordinals, channels); }

    void close();    // ends the communicator when its transfers are done
    void decline();  // gives up an offer: the communicator is never created
    // Marks the communicator as failed and fails all of its transfers. With `tell_peer` the other end is told.
    void break_off(const std::string& why, bool tell_peer = true);
    void stop();  // for MPI_Finalize; the other end does the same

  private:
    friend class PairCommTransfer;
    void enter(State state);
    bool make();
    bool run();
    bool may_launch() const { return launches_first(peer) || launched_there_ > launched_here_; }
    std::vector<nccl::Piece> pairs() const;  // of devices here and there
    int rank_there(std::size_t device) const;
    void launch(bool told);
    void begin_end();

    const std::vector<device::Context> contexts_;
    State state_ = State::kOffered;
    Interest interest_;
    progress::Deadline deadline_;
    std::shared_ptr<nccl::Communicator> communicator_;
    std::unique_ptr<nccl::Operation> operation_;  // one at a time: see run()
    MultiprocessorClaim room_;
    std::deque<PairCommTransfer*> queue_;
    std::uint64_t launched_here_ = 0, launched_there_ = 0;
    bool closing_ = false, was_ready_ = false, broken_ = false, told_ = false;
};

}  // namespace swy::p2p::pair_comms
