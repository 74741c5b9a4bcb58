// The virtual devices that this process sees: their identity, visibility and the memory of each.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "vgpu/core/device_memory.hpp"
#include "vgpu/core/topology.hpp"

namespace vgpu {

struct Device {
    int ordinal = 0;   // as this process counts, after CUDA_VISIBLE_DEVICES
    int physical = 0;  // as the host counts, in PCI order
    PciAddress pci;
    std::array<unsigned char, 16> uuid{};
    std::unique_ptr<DeviceMemory> memory;

    std::string bus_id() const;     // "0000:01:00.0"
    std::string uuid_text() const;  // "GPU-1b2c..."
};

// Made once, by cuInit. Never destroyed.
class DeviceTable {
  public:
    // Applies VGPU_COUNT, VGPU_TOPOLOGY and CUDA_VISIBLE_DEVICES. Complaints are appended, one per bad value.
    explicit DeviceTable(std::vector<std::string>& complaints);

    int count() const { return static_cast<int>(devices_.size()); }
    bool valid(int ordinal) const { return ordinal >= 0 && ordinal < count(); }
    Device& operator[](int ordinal) { return *devices_[static_cast<std::size_t>(ordinal)]; }
    // The device whose memory reservation or allocation file has this identity; nullptr if this process does not see
    // it.
    Device* by_uuid(const std::array<unsigned char, 16>& uuid);

  private:
    std::vector<std::unique_ptr<Device>> devices_;
};

// The indices into `all` that CUDA_VISIBLE_DEVICES=`text` lets a process see: in its order, up to the first entry that
// is not valid, and none at all when a device is named twice.
std::vector<int> visible_devices(const std::string& text, const std::vector<std::unique_ptr<Device>>& all);

}  // namespace vgpu
