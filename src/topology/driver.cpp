#include <fmt/format.h>

#include "device/device.hpp"
#include "topology/devices.hpp"

namespace swy::topology {

std::string pci_address(int ordinal) {
    device::Identity id;
    return device::identify(ordinal, id)
               ? fmt::format("{:04x}:{:02x}:{:02x}.0", id.pci_domain, id.pci_bus, id.pci_device)
               : std::string();
}

std::vector<Device> driver_devices() {
    std::vector<Device> all;
    for (int ordinal = 0; ordinal < device::device_count(); ++ordinal) {
        Device found;
        found.name = device::device_name(ordinal);
        device::Identity id;
        if (device::identify(ordinal, id)) {
            found.pci = pci_address(ordinal);
            found.uuid = "GPU-";
            for (std::size_t i = 0; i < id.uuid.size(); ++i)
                found.uuid += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id.uuid[i]);
        }
        all.push_back(std::move(found));
    }
    return all;
}

}  // namespace swy::topology
