// The exact assignment where GPUs have links of different speed: as assign(), and before ties go by rank, ranks that
// follow each other are put on GPUs with fast links. For choice.cpp alone.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/assignment.hpp"

namespace swy::topology {

struct Neighbours {
    std::vector<bool> follows;           // by rank: whether its link to the rank before it counts
    std::vector<std::int64_t> slowness;  // gpus x gpus, row by row: not negative, 0 for the fastest
};

// `start` is what assign() found. It is returned as it is where nothing is to be counted, and where ranks and GPUs are
// so many that trying all loads would take long (kMostStates); all ranks see at least one GPU.
inline constexpr std::int64_t kMostStates = std::int64_t{1} << 21;
std::vector<int> assign_neighbours(const Problem& problem, const Neighbours& neighbours, std::vector<int> start);

}  // namespace swy::topology
