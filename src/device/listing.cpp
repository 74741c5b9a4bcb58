#include "device/listing.hpp"

#include <fmt/format.h>

#include "device/device.hpp"
#include "topology/memory.hpp"

namespace swy::device {

std::string pci_address(int ordinal) {
    Identity id;
    return identify(ordinal, id) ? fmt::format("{:04x}:{:02x}:{:02x}.0", id.pci_domain, id.pci_bus, id.pci_device)
                                 : std::string();
}

std::vector<topology::Device> driver_devices() {
    std::vector<topology::Device> all;
    for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
        topology::Device found;
        found.name = device_name(ordinal);
        Identity id;
        if (identify(ordinal, id)) {
            found.pci = pci_address(ordinal);
            found.uuid = "GPU-";
            for (std::size_t i = 0; i < id.uuid.size(); ++i)
                found.uuid += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id.uuid[i]);
        }
        all.push_back(std::move(found));
    }
    return all;
}

topology::Member this_process() {
    return {topology::own_binding(), driver_devices()};
}

std::size_t nearest_device(const void* address, std::span<const int> ordinals) {
    return topology::nearest_gpu_here(address, ordinals.size(),
                                      [&](std::size_t i) { return pci_address(ordinals[i]); });
}

}  // namespace swy::device
