// The pair communicators of this process, at most as many as SWITCHYARD_P2P_PAIR_COMMS allows, those being set up or
// ended included. The cache decides who gets one, and which one ends to make room. pair_comms.cpp uses it, always under
// the engine's lock.
//
// The receiver offers a pair communicator with a clear to send. The sender reserves room for it and accepts, or has no
// room and declines; only then does the receiver draw NCCL's unique id, so no id is drawn and no communicator is begun
// in vain. Nothing waits for any of this: transfers use another transport meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "call/reason.hpp"
#include "p2p/control.hpp"
#include "p2p/devices.hpp"
#include "p2p/pair_comm.hpp"

namespace swy::p2p::pair_comms {

// Counts the transfers of this process. The count orders pair communicators by their last use.
void count_transfer();
std::uint64_t transfers_counted();

std::shared_ptr<PairComm> find_pair_comm(std::uint64_t id);

// Receiver: returns the pair communicator from that rank and its devices to these devices. Returns null when none is
// ready, or when the sender has lost pair communicators of which it has told us but whose message has not arrived here
// yet: `lost` is its count.
std::shared_ptr<PairComm> ready_pair_comm(int from, const Gpu& gpu, Devices devices, std::uint64_t lost);

// Receiver: count_bytes() counts bytes towards a pair communicator for that pair of devices; offer() offers one where
// the pair has had enough bytes and there is room, and returns its id, or 0 for no offer. There will never be one where
// `obstacle` is set: NCCL could not create it, or a GPU is at both ends, which is checked unless `may_share_gpus`.
// `others`: how many devices the sender has; `links`: NVLink may connect them to these.
void count_bytes(int from, const Gpu& gpu, Devices devices, std::size_t bytes);
std::uint64_t offer(int from, const Gpu& gpu, Devices devices, std::size_t others, bool may_share_gpus, bool links,
                    Reason& obstacle);

// Sender: accepts or declines an offer.
void answer_offer(std::uint64_t id, int from, const Gpu& gpu, Devices devices, std::size_t others);
// Sender: breaks off the pair communicators whose device was reset; returns how many to that rank have failed in all.
std::uint64_t failed_pair_comms(int to);

void hear_of_pair_comm(int rank, const Control& control);
bool step_pair_comms();
void lose_pair_comms();
void stop_pair_comms();

}  // namespace swy::p2p::pair_comms
