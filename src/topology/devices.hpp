// Matches the GPU driver's devices with hwloc's, by PCI address and never by number, and makes one table of the node of
// the facts that its processes exchange, the same on all of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace swy::topology {

struct Device {
    std::string pci;  // "0000:44:00.0"
    std::string uuid, name;
};

// Replaces the machine's GPUs by those that the driver lists, in PCI order, with the locations and links that hwloc has
// for them; the location of one that hwloc does not list is not known. `devices` are by ordinal; slices of one GPU are
// devices of their own. Returns each ordinal's GPU.
std::vector<int> take_devices(std::span<const Device> devices, Machine& machine);

// Returns the network device that is nearest to a GPU: behind the same host bridge, else on its NUMA node, else on its
// package; -1 where none is near. GPUs that have several at the same distance share them evenly.
int network_device(const Machine& machine, int gpu);

// The facts that a process of the node tells the others.
struct Member {
    Cpus binding;                 // of the process
    std::vector<Device> devices;  // that it sees, by ordinal
};
std::string pack(const Member& member);
Member unpack(const std::string& text);

// `members` are by rank. The machine's GPUs become all those that any of them sees, identified by UUID.
NodeFacts facts_of(std::span<const Member> members, Machine& machine);

}  // namespace swy::topology
