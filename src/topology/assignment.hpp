// The exact assignment of ranks to GPUs by load, sharing and distance: a minimum-cost flow in which the n-th rank on a
// GPU costs more than the one before. For choice.cpp alone.
#pragma once

#include <cstdint>
#include <vector>

namespace swy::topology {

struct Problem {
    int ranks = 0, gpus = 0;
    std::vector<std::int64_t> cost;  // ranks x gpus, row by row, not negative; kHidden where the rank does not see it
};
inline constexpr std::int64_t kHidden = -1;

// The GPU of each rank, -1 for one that sees none. Among the assignments with the fewest pairs of ranks on one GPU
// (which is one with the smallest worst load too: Harvey, Ladner, Lovasz and Tamir, Semi-matchings for bipartite
// graphs, theorem 3.5) the one of the smallest total cost; among those the first, read as a row of numbers.
std::vector<int> assign(const Problem& problem);

// For GPUs that have links of different speed: which ranks are to be on GPUs with fast links.
struct Neighbours {
    std::vector<bool> follows;           // by rank: whether its link to the rank before it counts
    std::vector<std::int64_t> slowness;  // gpus x gpus, row by row: not negative, 0 for the fastest
};

// As assign(), and before ties go by rank, ranks that follow each other are put on GPUs with fast links. `start` is
// what assign() found. It is returned as it is where nothing is to be counted, and where ranks and GPUs are so many
// that trying all loads would take long (kMostStates); all ranks see at least one GPU.
inline constexpr std::int64_t kMostStates = std::int64_t{1} << 21;
std::vector<int> assign_neighbours(const Problem& problem, const Neighbours& neighbours, std::vector<int> start);

}  // namespace swy::topology
