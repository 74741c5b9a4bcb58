// The devices of one end of a lane: those of a message's buffers, in their order. For lanes.cpp and lane_cache.cpp
// alone, under the engine's lock.
#pragma once

#include <cstddef>
#include <span>

#include "carrier/nccl/communicator.hpp"
#include "carrier/nccl/member.hpp"
#include "device/device.hpp"
#include "p2p/lane.hpp"

namespace swy::p2p::lanes {

using Devices = std::span<const device::Location>;

// As many as their names go into a control message.
inline constexpr std::size_t kMostDevices = 16;

const carrier::nccl::Member& device_here(int ordinal);

// The name by which the other end knows them: the UUID of the one, or what the UUIDs of several make.
Gpu name_of(Devices devices);

// A short name of each, and what two such lists have in common: "is one GPU in both?"
carrier::nccl::UniqueId list_of(std::span<const int> ordinals);
bool overlap(const carrier::nccl::UniqueId& one, const carrier::nccl::UniqueId& other);

bool same(std::span<const int> ordinals, Devices devices);

}  // namespace swy::p2p::lanes
