// The virtual devices that this process sees: their identity, visibility and the memory of each.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "vgpu/core/device_memory.hpp"
#include "vgpu/core/topology.hpp"

namespace vgpu {

inline constexpr const char* kDeviceName = "Virtual GPU (Switchyard)";

struct Device {
    int ordinal = -1;  // as this process counts, after CUDA_VISIBLE_DEVICES; -1 where that hides it
    int physical = 0;  // as the host counts, in PCI order
    PciAddress pci;
    std::array<unsigned char, 16> uuid{};
    std::unique_ptr<DeviceMemory> memory;

    std::string bus_id() const;     // "0000:01:00.0"
    std::string uuid_text() const;  // "GPU-1b2c..."
};

// All devices of the node in PCI order, after VGPU_COUNT and VGPU_TOPOLOGY. Made at the first call, never destroyed,
// and no file is opened for it, so that a child of fork may use it. Complaints are appended, one per bad value, and the
// result is empty then.
const std::vector<std::unique_ptr<Device>>& node_devices(std::vector<std::string>& complaints);

// Made once, by cuInit. Never destroyed.
class DeviceTable {
  public:
    // Applies CUDA_VISIBLE_DEVICES to the node's devices. Complaints are appended, as by node_devices.
    explicit DeviceTable(std::vector<std::string>& complaints);

    int count() const { return static_cast<int>(devices_.size()); }
    bool valid(int ordinal) const { return ordinal >= 0 && ordinal < count(); }
    Device& operator[](int ordinal) { return *devices_[static_cast<std::size_t>(ordinal)]; }
    // The device whose memory reservation or allocation file has this identity; nullptr if this process does not see
    // it.
    Device* by_uuid(const std::array<unsigned char, 16>& uuid);

  private:
    std::vector<Device*> devices_;
};

// The indices into `all` that CUDA_VISIBLE_DEVICES=`text` lets a process see: in its order, up to the first entry that
// is not valid, and none at all when a device is named twice.
std::vector<int> visible_devices(const std::string& text, const std::vector<std::unique_ptr<Device>>& all);

}  // namespace vgpu
