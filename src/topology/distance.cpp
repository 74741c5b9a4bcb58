#include "topology/distance.hpp"

#include <algorithm>

namespace swy::topology {

namespace {

constexpr int kStep = 1000;  // from one Reach to the next; latencies are smaller

Reach reach_of(const GpuFacts& gpu, const Cpus& binding) {
    if (gpu.local.empty())
        return Reach::kUnknown;
    if (gpu.local.overlaps(binding))
        return Reach::kLocal;
    if (gpu.cache.overlaps(binding))
        return Reach::kCache;
    if (gpu.numa.overlaps(binding))
        return Reach::kNuma;
    return gpu.package.overlaps(binding) ? Reach::kPackage : Reach::kMachine;
}

// The shortest way from a NUMA node of the rank to one of the GPU; 0 where the machine does not say.
int latency(const NodeFacts& facts, const RankFacts& rank, const GpuFacts& gpu) {
    const std::size_t nodes = facts.nodes.size();
    if (facts.latency.size() != nodes * nodes)
        return 0;
    int least = kStep;
    for (std::size_t from = 0; from < nodes; ++from)
        for (const int to : facts.nodes[from].overlaps(rank.binding) ? gpu.nodes : std::vector<int>())
            least = std::min(least, facts.latency[from * nodes + static_cast<std::size_t>(to)]);
    return least == kStep ? 0 : std::clamp(least, 0, kStep - 1);
}

}  // namespace

bool is_bound(const NodeFacts& facts, const RankFacts& rank) {
    return !rank.binding.empty() && (facts.machine.empty() || !rank.binding.contains(facts.machine));
}

Distance distance(const NodeFacts& facts, const RankFacts& rank, int gpu) {
    const GpuFacts& there = facts.gpus[static_cast<std::size_t>(gpu)];
    if (!is_bound(facts, rank))
        return {there.local.empty() ? Reach::kUnknown : Reach::kMachine, 0};
    const Reach reach = reach_of(there, rank.binding);
    const int far = reach >= Reach::kPackage ? latency(facts, rank, there) : 0;
    return {reach, static_cast<int>(reach) * kStep + far};
}

}  // namespace swy::topology
