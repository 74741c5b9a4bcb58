// Pair communicators: NCCL communicators of two ranks for point-to-point, one for each directed pair of devices with
// enough traffic, kept in a bounded cache. The receiver decides; the order of its clear-to-send messages is the order
// of transfers on both sides. Send and receive operations call these functions, under the engine's lock
// (docs/how-it-works.md, "Point-to-point").
#pragma once

#include <cstdint>
#include <memory>

#include "call/envelope.hpp"
#include "comm/state.hpp"
#include "device/device.hpp"
#include "p2p/control.hpp"
#include "pack/payload.hpp"
#include "staging/transfer.hpp"

namespace swy::p2p::pair_comms {

// Sender, when it writes an envelope to rank `to` of MPI_COMM_WORLD: fills in what the receiver must know of pair
// communicators and NCCL (nccl, shares_gpu, gpu, host, pair_comms_failed, parent). `comm` may be null. Where NCCL can
// only move the packed form of the data, this and choose() give the payload memory for it (pack/packed.hpp): afterwards
// no end can change its mind.
void describe(pack::Payload& payload, int to, comm::State* comm, call::Envelope& envelope);

// Receiver, when it has an envelope for `payload`: chooses the transport and sets how, reason, pair_comm, flag and an
// offer in the clear to send. Counts the transfer for `auto`. Called again, with the clear to send as it was, when the
// sender has answered no to How::kParent. Returns false when it cannot choose yet because the communicator's own NCCL
// communicator is busy with a transfer that ends by itself: the caller tries again in a later step, with the same clear
// to send.
[[nodiscard]] bool choose(const call::Envelope& envelope, pack::Payload& payload, comm::State* comm, Control& clear);

// Receiver: takes back a clear to send with How::kParent that has not been answered; no transfer will follow it.
void withdraw(const Control& clear);

// receive() is for the receiver, at once after it has sent a clear to send with How::kPairComm, or after its clear to
// send with How::kParent has been answered with yes; send() is for the sender, at once when the former has come or when
// it has sent that yes. Both return nullptr, with `why` set, when the transfer is impossible at this end.
std::unique_ptr<staging::Transfer> receive(const Control& clear, int from, const pack::Payload& payload,
                                           std::string& why);
std::unique_ptr<staging::Transfer> send(const Control& clear, int to, const pack::Payload& payload, std::string& why);

// Sender, with How::kParent: reserves the parent's communicator for the transfer. Returns false when the transfer may
// not start now; the receiver then chooses again.
bool reserve(const Control& clear, int from);

// Sender, for each clear to send, before anything else: answers the offer in it, if there is one.
void take_offer(const Control& clear, int from, const pack::Payload& payload);

// Handles a control message of MessageType::kPairComm.
void handle_control(int rank, const Control& control);

bool step();  // the engine's service: drives set-up, transfers and end of pair communicators
void lose();  // breaks off those to failed ranks
void start();
void stop();  // under the engine's lock; nccl::Communicator::end_all() must follow

// While one exists, no transfer of p2p is launched on the NCCL communicator of `comm`, because a collective is agreed
// on and launched there. It is constructed before the agreement's vote, not under the engine's lock, and waits, with
// MPI's progress, until what p2p has reserved there is launched.
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

// The same for a non-blocking collective: from its call to its end no new transfer is reserved there, and the
// collective is launched once those that had been reserved are launched. So a transfer is launched before the
// collective by both of its ranks, which had both reserved it before they made their calls, or by neither. A rank that
// has proposed one and has no answer yet does not know which, and must not launch the collective. Where the answer is a
// lower rank's, that one may have launched it already and wait for its GPU outside MPI, so the collective must not go
// over NCCL. Constructed and destroyed under the engine's lock.
class Announced {
  public:
    explicit Announced(const comm::State& comm);
    ~Announced();
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;
    bool may_launch() const;
    bool awaits_lower_rank() const;  // from its construction on

  private:
    const comm::State* comm_ = nullptr;
    std::uint64_t parent_ = 0;
};

}  // namespace swy::p2p::pair_comms
