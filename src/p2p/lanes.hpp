// Lanes: NCCL communicators of two ranks for point-to-point, one for each directed pair of devices that has earned it,
// kept in a bounded cache. The receiver decides; its clear-to-send order is the order of transfers on both sides. Send
// and receive operations ask; all under the engine's lock (design section 6).
#pragma once

#include <cstdint>
#include <memory>

#include "comm/state.hpp"
#include "device/device.hpp"
#include "p2p/control.hpp"
#include "p2p/envelope.hpp"
#include "p2p/payload.hpp"
#include "p2p/transfer.hpp"

namespace swy::p2p::lanes {

// Sender, when it writes an envelope to rank `to` of MPI_COMM_WORLD: fills in what the receiver must know of lanes and
// NCCL (nccl, shares_gpu, gpu, host, lane, parent). `comm` may be null.
void describe(const Payload& payload, int to, comm::State* comm, Envelope& envelope);

// Receiver, when it has an envelope for `payload`: sets how, reason, lane, flag and an offer in the clear to send.
// Counts the transfer for `auto`. Asked again, with the clear to send as it was, when the sender has answered no to
// How::kParent. False: not yet; the communicator's own NCCL communicator is busy with a transfer that ends by itself:
// ask again in a later step, with the same clear to send.
[[nodiscard]] bool choose(const Envelope& envelope, const Payload& payload, comm::State* comm, Control& clear);

// Receiver: there will be no transfer after a clear to send with How::kParent that has not been answered.
void withdraw(const Control& clear);

// Receiver, at once after the clear to send with How::kLane has been sent or that with How::kParent has been answered
// with yes; sender, at once when the one has come or the other's yes has been sent. nullptr, with `why` set, when that
// is impossible here.
std::unique_ptr<Transfer> receive(const Control& clear, int from, const Payload& payload, std::string& why);
std::unique_ptr<Transfer> send(const Control& clear, int to, const Payload& payload, std::string& why);

// Sender: may a transfer over the parent's communicator start now? When not, the receiver chooses again. (How::kParent)
bool reserve(const Control& clear, int from);

// Sender, for each clear to send, before anything else: takes up what it offers.
void take_offer(const Control& clear, int from, const Payload& payload);

// A control message of Word::kLane.
void hear(int rank, const Control& control);

bool step();  // the engine's service: lanes in the making, and ending
void start();
void stop();  // under the engine's lock; carrier::nccl::Communicator::end_all() must follow

// While one lives, no transfer of p2p is launched on the NCCL communicator of `comm`: a collective is agreed on and
// launched there. Made before the agreement's vote, not under the engine's lock; waits, with MPI's progress, until what
// p2p has reserved there is launched.
class Collective {
  public:
    explicit Collective(const comm::State& comm);
    ~Collective();
    Collective(const Collective&) = delete;
    Collective& operator=(const Collective&) = delete;

  private:
    const comm::State* comm_ = nullptr;
    std::uint64_t parent_ = 0;
};

// The same for a collective that does not block: from its call to its end no transfer is newly reserved there, and it
// is launched when those that were have been launched. So a transfer is launched before the collective by both of its
// ranks, which had both reserved it before they made their calls, or by neither. Made and ended under the engine's
// lock.
class Announced {
  public:
    explicit Announced(const comm::State& comm);
    ~Announced();
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;
    bool may_launch() const;
    bool nothing_reserved() const;

  private:
    const comm::State* comm_ = nullptr;
    std::uint64_t parent_ = 0;
};

}  // namespace swy::p2p::lanes
