// Parses lists of a node's ranks that a user has written: what each is bound to and which GPUs it sees. For `switchyard
// topo` and tests.
#pragma once

#include <string>

#include "topology/machine.hpp"

namespace swy::topology {

// One entry for each rank, separated by semicolons; one entry alone serves all ranks.
struct Lists {
    std::string bind;      // PUs by the system's numbers as "0-5,48-53", or "-": not bound
    std::string visible;   // GPUs by their index in PCI order, in the rank's order, as "2,3"; or "all", or "-": none
    std::vector<int> all;  // the GPUs that "all" stands for, by CUDA's ordinals; empty: in PCI order
    int ranks = 0;         // 0: as many as the longer list has, and as many as there are GPUs where that is one
};
inline constexpr int kMostRanks = 4096;

// Adds the ranks to facts_of(machine). In a topology without I/O devices GPUs may be named that it does not list: they
// are added to the machine, their location unknown. Returns "" or what is wrong with the lists.
std::string add_ranks(const Lists& lists, Machine& machine, NodeFacts& facts);

}  // namespace swy::topology
