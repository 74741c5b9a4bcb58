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

// Returns the smallest latency from a NUMA node of these cores to one of the GPU; 0 where it is not known.
int latency(const NodeFacts& facts, const Cpus& cores, const GpuFacts& gpu) {
    const std::size_t nodes = facts.nodes.size();
    if (facts.latency.size() != nodes * nodes)
        return 0;
    int least = kStep;
    for (std::size_t from = 0; from < nodes; ++from)
        for (const int to : facts.nodes[from].overlaps(cores) ? gpu.nodes : std::vector<int>())
            least = std::min(least, facts.latency[from * nodes + static_cast<std::size_t>(to)]);
    return least == kStep ? 0 : std::clamp(least, 0, kStep - 1);
}

// A link is as slow as its slower direction.
bool linked(const NodeFacts& facts, int one, int other, Step& found) {
    const std::size_t gpus = facts.gpus.size();
    if (facts.links.size() != gpus * gpus)
        return false;
    const auto at = [&](int from, int to) {
        return facts.links[static_cast<std::size_t>(from) * gpus + static_cast<std::size_t>(to)];
    };
    const std::int64_t bandwidth = std::min(at(one, other), at(other, one));
    if (bandwidth <= 0)
        return false;
    found = {Between::kLink, *std::max_element(facts.links.begin(), facts.links.end()) - bandwidth};
    return true;
}

// Finds the step over PCI; returns false where the GPUs are not behind one host bridge.
bool joined(const GpuFacts& one, const GpuFacts& other, Step& found) {
    const auto parting = std::mismatch(one.path.begin(), one.path.end(), other.path.begin(), other.path.end());
    const std::int64_t shared = parting.first - one.path.begin();
    const std::int64_t bridges = (one.path.end() - parting.first) + (other.path.end() - parting.second);
    if (shared == 0)
        return false;
    found = {shared > 1 ? Between::kSwitch : Between::kBridge, bridges};
    if (bridges == 0)
        found.between = Between::kOneGpu;
    return true;
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
    const int far = reach >= Reach::kPackage ? latency(facts, rank.binding, there) : 0;
    return {reach, static_cast<int>(reach) * kStep + far};
}

std::int64_t length(const Step& step) {
    constexpr std::int64_t kFiner = std::int64_t{1} << 21;  // NVLink's bandwidths, in MB/s, are less
    return static_cast<std::int64_t>(step.between) * kFiner + std::min(step.finer, kFiner - 1);
}

Step step(const NodeFacts& facts, int one, int other) {
    const GpuFacts& a = facts.gpus[static_cast<std::size_t>(one)];
    const GpuFacts& b = facts.gpus[static_cast<std::size_t>(other)];
    Step found;
    const bool by_pci = joined(a, b, found);
    if (by_pci && found.between == Between::kOneGpu)
        return found;
    if (linked(facts, one, other, found) || by_pci)
        return found;
    const Reach reach = b.local.empty() ? Reach::kUnknown : reach_of(a, b.local);
    const bool far = reach == Reach::kPackage || reach == Reach::kMachine;
    const auto kind = static_cast<std::size_t>(Between::kLocal) + static_cast<std::size_t>(reach);
    return {static_cast<Between>(kind), far ? std::max(latency(facts, a.local, b), latency(facts, b.local, a)) : 0};
}

}  // namespace swy::topology
