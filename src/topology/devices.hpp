// The GPU driver's devices and hwloc's put together: by PCI address, never by number.
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

// Makes the machine's GPUs those that the driver shows, in PCI order, with the places and links that hwloc knows of
// them; one that hwloc does not list has no known place. `devices` are by ordinal; slices of one GPU are devices of
// their own. Returns each ordinal's GPU.
std::vector<int> take_devices(std::span<const Device> devices, Machine& machine);

// The network device that is nearest to a GPU: behind the same host bridge, else on its NUMA node, else on its package.
// GPUs that have several at the same distance share them evenly. -1: none is near.
int network_device(const Machine& machine, int gpu);

}  // namespace swy::topology
