// Where host memory that a GPU copies from and to should lie: on the NUMA nodes next to it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace swy::topology {

// The system's numbers of the NUMA nodes that are local to the GPU with this PCI address; none where that is not known,
// or where all nodes are, since then it makes no difference.
std::vector<unsigned> near_nodes(const Machine& machine, const std::string& pci);

// The same on the machine at hand. Asked once for each GPU, and nothing at all where there is one node.
std::vector<unsigned> nodes_near_device(const std::string& pci);

// Has the system take the pages of an area from these nodes while they have some: a preference, which no full node
// turns into an error. False where it was not taken (no node named, a kernel or container that refuses), which is none
// either.
bool prefer_nodes(void* data, std::size_t bytes, const std::vector<unsigned>& nodes);

}  // namespace swy::topology
