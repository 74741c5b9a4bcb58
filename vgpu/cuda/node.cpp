// The node's devices, for libnvidia-ml: whether this process sees them or not, and without cuInit.
#include <cstdio>

#include "vgpu/core/device_table.hpp"
#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/api.hpp"
#include "vgpu/cuda/init.hpp"
#include "vgpu/private.h"

using namespace vgpu;
using namespace vgpu::cuda;

int vgpu_node_device_count() {
    std::vector<std::string> complaints = settings().complaints;
    const std::size_t count = complaints.empty() ? node_devices(complaints).size() : 0;
    report(complaints);
    return complaints.empty() ? static_cast<int>(count) : -1;
}

int vgpu_node_device_get(int index, vgpu_node_device* device) {
    std::vector<std::string> complaints;
    const auto& all = node_devices(complaints);
    if (index < 0 || static_cast<std::size_t>(index) >= all.size())
        return -1;
    const Device& from = *all[static_cast<std::size_t>(index)];
    *device = {from.pci.domain, from.pci.bus, from.pci.device, {}, from.memory->ledger().limit(), 0};
    device->used = from.memory->ledger().used();
    std::snprintf(device->uuid, sizeof device->uuid, "%s", from.uuid_text().c_str());
    return 0;
}

vgpu_node vgpu_node_get() {
    const Settings& s = settings();
    return {s.driver, s.major, s.minor, s.nvlink, s.peers, kDeviceName};
}
