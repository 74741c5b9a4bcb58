// Where host memory that a GPU copies from and to should lie: on the NUMA nodes next to it. And the other way round,
// which GPU is for host memory that is there.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
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

// The system's number of the NUMA node that has the page of an address; -1 where it does not tell: there is no page
// yet, or a container forbids the question.
int node_of(const void* address);

// Which of these GPUs, by PCI address, is nearest to a NUMA node, by the distances that count for ranks; the first one
// of those that are equally near, and of all where the machine does not have the node. Its place in the list.
std::size_t nearest_gpu(const Machine& machine, int node, std::span<const std::string> pci);

// The same for host memory and `count` GPUs, whose PCI addresses `pci` gives, on the machine at hand. Asks nothing
// where there is one GPU or one NUMA node, and for the machine once.
std::size_t nearest_gpu_here(const void* address, std::size_t count,
                             const std::function<std::string(std::size_t)>& pci);

}  // namespace swy::topology
