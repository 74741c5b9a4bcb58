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

}  // namespace swy::topology
