// Chooses a GPU for each rank of a node: a function from a table of facts to a table of choices, with one result on
// every rank that has the same facts. No hwloc, no CUDA, no MPI here: `switchyard topo`, `switchyard run` and the
// library make the facts, tests write them down.
//
// The rule. What a rank may see is a hard filter. Then, in this order: the GPU with the most ranks has as few as can
// be; as few pairs of ranks as can be share a GPU; the ranks are as near to their GPUs as can be, in sum; ranks that
// follow each other are on GPUs with fast links. What is still equal goes by rank, then by the GPUs' order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topology/cpus.hpp"

namespace swy::topology {

// The distance of a rank's cores from a GPU: the smallest part of the machine that holds the GPU and some of the cores.
enum class Reach : std::uint8_t { kLocal, kCache, kNuma, kUnknown, kPackage, kMachine };

struct GpuFacts {
    // PUs near the GPU: those that hwloc calls local, and those of the L3 caches, NUMA nodes and packages that overlap
    // with these. `local` is empty where the GPU's location is not known.
    Cpus local, cache, numa, package;
    std::vector<int> nodes;  // indices of the NUMA nodes in NodeFacts::nodes
    // The PCI path to it: its host bridge, the bridges of switches, and itself, by the system's names. Empty where that
    // is not known; the same for slices of one GPU.
    std::vector<std::string> path = {};
};

struct RankFacts {
    Cpus binding;              // empty: not bound
    std::vector<int> visible;  // indices of GPUs, in the order in which the rank sees them
};

struct NodeFacts {
    std::vector<GpuFacts> gpus;       // in PCI order; slices of one GPU follow each other
    std::vector<RankFacts> ranks;     // of this node, in the order of their ranks
    Cpus machine;                     // all PUs: a rank bound to all of them is not bound. May be empty
    std::vector<Cpus> nodes;          // PUs of each NUMA node. May be empty
    std::vector<int> latency;         // nodes x nodes, row by row, relative (10 is the node itself). May be empty
    std::vector<std::int64_t> links;  // gpus x gpus, row by row: bandwidth of NVLink, 0 for none. May be empty
};

struct Choice {
    int gpu = -1;      // index in NodeFacts::gpus; -1 when the rank sees none
    int ordinal = -1;  // the same among those that the rank sees
    int load = 0;      // ranks on this GPU, this one included
    bool bound = false;
    Reach reach = Reach::kUnknown;
    std::string why;  // the reason, a sentence for users
};

std::vector<Choice> choose(const NodeFacts& facts);

// The same without regard to the ranks' cores: ranks go to GPUs of the NUMA nodes in turn, so that GPUs that share a
// path to memory and network are used together as late as possible.
std::vector<Choice> choose_spread(const NodeFacts& facts);

// All GPUs that each rank is to see when the node's are divided among its ranks, its choice first and the others in the
// order of a ring (order.hpp): with fewer ranks than GPUs no GPU is left unused. A GPU that is equally far from several
// ranks goes to one whose choice is near it.
std::vector<std::vector<int>> share_out(const NodeFacts& facts, std::span<const Choice> choices);

}  // namespace swy::topology
