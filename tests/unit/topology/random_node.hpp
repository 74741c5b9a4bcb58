// Random nodes for the choice of GPUs, and what the rule says of them, found by trying everything. The distances are
// worked out here from the machine's plan, not by the code under test.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "topology/choice.hpp"

namespace swy::topology {

// A machine of `cpus` PUs: two a cache, four a NUMA node, eight a package. A GPU is at one of these, or nobody knows.
struct Plan {
    int cpus = 16;
    struct Gpu {
        int level = 0;  // 1 cache, 2 NUMA node, 3 package, 0 not known
        int index = 0;  // of the cache, node or package
    };
    struct Rank {
        std::vector<int> cpus;  // empty: not bound
        std::vector<int> visible;
    };
    std::vector<Gpu> gpus;
    std::vector<Rank> ranks;
    std::vector<std::int64_t> links;
};

Plan random_plan(std::mt19937& random, int most_ranks, int most_gpus);
// `number[i]`: what the system calls the i-th PU.
NodeFacts facts_of(const Plan& plan, const std::vector<int>& number);
NodeFacts facts_of(const Plan& plan);

int distance_of(const Plan& plan, int rank, int gpu);

// What is to be small, the more important first: worst load, pairs on one GPU, distance, slowness of links.
using Cost = std::array<std::int64_t, 4>;
Cost cost_of(const Plan& plan, const std::vector<int>& gpus);  // -1: the rank has none
std::vector<int> best_of_all(const Plan& plan);

}  // namespace swy::topology
