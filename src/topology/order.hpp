// The order of the GPUs of a process that has several: that of a ring in which neighbours are near. A plain function of
// the node's facts, the same on every rank that has the same.
//
// The rule. As few steps as can be are of the farthest kind (distance.hpp), and those are as short as can be; of what
// is equal, as few as can be are of the next nearer kind, and so on: a ring is as slow as its slowest step, so it takes
// NVLink before PCI, and crosses to another package no oftener than it must. Of orders that are equal, the one in which
// near GPUs come early; of those the one by the GPUs' own order, round from the first.
#pragma once

#include <span>
#include <vector>

#include "topology/choice.hpp"
#include "topology/distance.hpp"

namespace swy::topology {

// Up to so many GPUs of a process the order is the best there is; of more it is a good one, and never worse than their
// own order.
inline constexpr std::size_t kMostExact = 8;

// The GPUs, from the first of them on, which stays the first; the step from the last to `next` counts too: to itself
// for a ring of one process.
std::vector<int> ring_order(const NodeFacts& facts, std::span<const int> gpus, int next);

// Returns the farthest link between a rank's GPUs in that order, and between its last one and the next rank's first.
Between farthest(const NodeFacts& facts, std::span<const std::vector<int>> shares, std::size_t rank);

// Each rank's GPUs in the order of one ring through all ranks, in the order of the ranks; of each rank the first stays
// the first.
void order_shares(const NodeFacts& facts, std::vector<std::vector<int>>& shares);

}  // namespace swy::topology
