// The NUMA nodes on which host memory should lie that a GPU copies from and to; and the GPU that is nearest to given
// host memory.
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

// The same on this machine. The answer is computed once for each GPU; with one NUMA node hwloc is not loaded.
std::vector<unsigned> nodes_near_device(const std::string& pci);

// Sets these nodes as the preferred ones for the pages of an area, which is no error when they are full. Returns false
// where no preference was set (no node named, a kernel or container that refuses), which is no error either.
bool prefer_nodes(void* data, std::size_t bytes, const std::vector<unsigned>& nodes);

// Returns the system's number of the NUMA node that has the page of an address; -1 where move_pages(2) fails: there is
// no page yet, or a container forbids the call.
int node_of(const void* address);

// Finds which of these GPUs, by PCI address, is nearest to a NUMA node, by the distances that count for ranks; the
// first one of those that are equally near, and of all where the machine does not have the node. Returns its index in
// the list.
std::size_t nearest_gpu(const Machine& machine, int node, std::span<const std::string> pci);

// The same for host memory and `count` GPUs, whose PCI addresses `pci` returns, on this machine. The topology is read
// once, and not at all where there is one GPU or one NUMA node.
std::size_t nearest_gpu_here(const void* address, std::size_t count,
                             const std::function<std::string(std::size_t)>& pci);

}  // namespace swy::topology
