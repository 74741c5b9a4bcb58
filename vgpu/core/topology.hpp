// The GPUs of the machine that VGPU_TOPOLOGY describes. hwloc is loaded only when that variable is set, so that the
// driver brings no dependency into programs.
#pragma once

#include <string>
#include <vector>

namespace vgpu {

struct PciAddress {
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
};

// The NVIDIA GPUs of an hwloc XML file in PCI order. On failure the result is empty and `complaint` says why.
std::vector<PciAddress> gpus_of_topology(const std::string& file, std::string& complaint);

}  // namespace vgpu
