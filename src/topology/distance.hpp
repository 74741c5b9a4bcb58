// How far a rank is from a GPU, in a person's words and as a number that sums up. For choice.cpp alone.
#pragma once

#include "topology/choice.hpp"

namespace swy::topology {

inline constexpr int kFarthest = 9999;  // no distance is larger

struct Distance {
    Reach reach = Reach::kUnknown;
    int value = 0;  // 0 for all GPUs when the rank is not bound
};

bool is_bound(const NodeFacts& facts, const RankFacts& rank);
Distance distance(const NodeFacts& facts, const RankFacts& rank, int gpu);

}  // namespace swy::topology
