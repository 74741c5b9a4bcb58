// The devices of one end of a pair communicator: those of a message's buffers, in their order. Only pair_comms.cpp and
// pair_comm_cache.cpp use this, under the engine's lock.
#pragma once

#include <cstddef>
#include <span>

#include "device/device.hpp"
#include "nccl/communicator.hpp"
#include "nccl/member.hpp"
#include "p2p/pair_comm.hpp"

namespace swy::p2p::pair_comms {

using Devices = std::span<const device::Location>;

// The number of devices whose names fit into a control message.
inline constexpr std::size_t kMostDevices = 16;

const nccl::Member& device_here(int ordinal);

// The name by which the other end knows the devices: the UUID of a single one, or a hash of the UUIDs of several.
Gpu name_of(Devices devices);

// A list of short names, one for each device; overlap() tells whether two such lists have a GPU in common.
nccl::UniqueId list_of(std::span<const int> ordinals);
bool overlap(const nccl::UniqueId& one, const nccl::UniqueId& other);

bool same(std::span<const int> ordinals, Devices devices);

}  // namespace swy::p2p::pair_comms
