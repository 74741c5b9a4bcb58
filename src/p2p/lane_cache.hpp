// The lanes of this process, as many as SWITCHYARD_P2P_LANES allows, those in the making and ending included: who gets
// one, and which one ends for another. lanes.cpp asks; all under the engine's lock.
//
// The receiver offers a lane with a clear to send. The sender keeps room for it and accepts, or has none and declines;
// only then does the receiver draw NCCL's unique id, so no id and no half of a communicator is made in vain. Nothing
// waits for any of this: transfers take another way meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "p2p/control.hpp"
#include "p2p/devices.hpp"
#include "p2p/lane.hpp"
#include "route/reason.hpp"

namespace swy::p2p::lanes {

// Counts a transfer: what is least recently used is told by these.
void count_transfer();
std::uint64_t transfers_counted();

std::shared_ptr<Half> find_half(std::uint64_t id);

// Receiver: the lane from that rank and its devices to these. Null when none is ready, or when the sender has lost
// lanes that it has told us of but we have not heard of yet: `lost` is its count.
std::shared_ptr<Half> ready_half(int from, const Gpu& gpu, Devices devices, std::uint64_t lost);

// Receiver: counts bytes towards a lane for that pair, and offers one where the pair has earned it and there is room.
// The lane's id; 0: no offer. There will be none where `obstacle` is set: NCCL could not make it, or a GPU is at both
// ends, which is found out unless `may_share_gpus`. `others`: how many devices the sender has.
void count_bytes(int from, const Gpu& gpu, Devices devices, std::size_t bytes);
std::uint64_t offer(int from, const Gpu& gpu, Devices devices, std::size_t others, bool may_share_gpus,
                    Reason& obstacle);

// Sender.
void answer_offer(std::uint64_t id, int from, const Gpu& gpu, Devices devices, std::size_t others);
std::uint64_t lost_lanes(int to);  // breaks off those whose device was reset; how many have been lost in all

void hear_of_lane(int rank, const Control& control);
bool step_halves();
void stop_halves();

}  // namespace swy::p2p::lanes
