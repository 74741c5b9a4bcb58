// This process's devices in the form that src/topology uses, and which of them is nearest to host memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "topology/devices.hpp"

namespace swy::device {

// The PCI address of a device, "0000:44:00.0"; "" where the driver does not say.
std::string pci_address(int ordinal);

// The devices that this process sees, by ordinal; none without a usable driver. Does not load the driver.
std::vector<topology::Device> driver_devices();

// The description of this process for the other processes of its node. Uses the driver only if it is loaded already.
topology::Member this_process();

// The index in `ordinals` of the device that is nearest to host memory at `address`, by topology::nearest_gpu_here().
std::size_t nearest_device(const void* address, std::span<const int> ordinals);

}  // namespace swy::device
