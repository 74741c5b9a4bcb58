// A node with its ranks and the GPUs chosen for them, and its three output formats: a tree as text, JSON, SVG. For
// `switchyard topo`.
#pragma once

#include <string>
#include <vector>

#include "topology/choice.hpp"
#include "topology/machine.hpp"

namespace swy::cli {

struct Node {
    topology::Machine machine;
    topology::NodeFacts facts;
    std::vector<topology::Choice> choices;  // by rank
    std::vector<std::vector<int>> shares;   // the same: its GPUs when all are divided, in the order of a ring
};

std::string node_as_text(const Node& node);
std::string node_as_json(const Node& node);
std::string node_as_svg(const Node& node);

// A part of the machine as it is drawn: the packages, in them their NUMA nodes, in these the devices near them.
// Devices are indices; those that are near to more than one node are at the package, or at the machine.
struct Part {
    std::string title;
    std::vector<int> gpus, nics;
    std::vector<Part> parts;
};
Part drawn(const topology::Machine& machine);

std::string gpu_title(const Node& node, int gpu);  // "GPU 2  0000:44:00.0  GA100"
std::string nic_title(const Node& node, int nic);
bool some_share_is_several(const Node& node);
// Why each rank has its GPU, once for all ranks with the same reason: "ranks 0 to 7: ...".
std::vector<std::string> reasons(const Node& node);
std::string ranks_on(const Node& node, int gpu);  // "rank 0", "ranks 0-3,8", "" for none

}  // namespace swy::cli
