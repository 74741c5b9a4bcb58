#include "vgpu/core/device_table.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include <unistd.h>

#include "vgpu/core/settings.hpp"

namespace vgpu {
namespace {

std::uint64_t hash(const std::string& text, std::uint64_t seed) {  // FNV-1a
    std::uint64_t value = 0xcbf29ce484222325ull ^ seed;
    for (const char c : text)
        value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdull;
    return value ^ (value >> 33);
}

// Makes a device's identity, equal in all processes of a node and different on every other node and after every boot:
// of the host name (simulated hosts on one machine each have one), the boot id, VGPU_NODE and the PCI address.
std::array<unsigned char, 16> uuid_of(const std::string& bus_id) {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    const std::string identity = std::string(host) + "/" + boot + "/" + settings().node + "/" + bus_id;
    std::array<unsigned char, 16> uuid{};
    for (unsigned half = 0; half < 2; ++half) {
        const std::uint64_t bits = hash(identity, half);
        for (unsigned i = 0; i < 8; ++i)
            uuid[half * 8 + i] = static_cast<unsigned char>(bits >> (8 * i));
    }
    return uuid;
}

std::vector<PciAddress> addresses(std::vector<std::string>& complaints) {
    const Settings& s = settings();
    std::vector<PciAddress> gpus;
    if (s.topology.empty()) {
        for (int i = 0; i < s.count; ++i)
            gpus.push_back({0, static_cast<unsigned>(i) + 1, 0});
        return gpus;
    }
    std::string problem;
    gpus = gpus_of_topology(s.topology, problem);
    if (gpus.empty()) {
        complaints.push_back(problem);
        return gpus;
    }
    if (s.count_given && static_cast<std::size_t>(s.count) > gpus.size()) {
        complaints.push_back(complaint("VGPU_COUNT", std::to_string(s.count),
                                       "VGPU_TOPOLOGY lists only " + std::to_string(gpus.size()) + " GPUs",
                                       "lower it, or leave it out to have them all"));
    } else if (s.count_given) {
        gpus.resize(static_cast<std::size_t>(s.count));
    }
    return gpus;
}

// One entry of CUDA_VISIBLE_DEVICES; -1 if it names no device.
int visible_device(const std::string& entry, const std::vector<std::unique_ptr<Device>>& all) {
    if (entry.starts_with("GPU-")) {
        int found = -1;
        for (const auto& device : all) {
            if (!device->uuid_text().starts_with(entry))
                continue;
            if (found >= 0)
                return -1;  // a prefix must be unique
            found = device->physical;
        }
        return found;
    }
    char* end = nullptr;
    const long index = std::strtol(entry.c_str(), &end, 10);
    if (end == entry.c_str() || *end != '\0' || index < 0 || index >= static_cast<long>(all.size()))
        return -1;
    return static_cast<int>(index);
}

}  // namespace

std::string Device::bus_id() const {
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    return text;
}

std::string Device::uuid_text() const {
    std::string text = "GPU-";
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x", uuid[i]);
        text += (i == 4 || i == 6 || i == 8 || i == 10) ? "-" : "";
        text += digits;
    }
    return text;
}

std::vector<int> visible_devices(const std::string& text, const std::vector<std::unique_ptr<Device>>& all) {
    std::vector<int> visible;
    for (std::string entry : split(text, ',')) {
        entry.erase(0, entry.find_first_not_of(" \t"));
        entry.erase(entry.find_last_not_of(" \t") + 1);
        const int index = visible_device(entry, all);
        if (index < 0)
            break;
        if (std::find(visible.begin(), visible.end(), index) != visible.end())
            return {};
        visible.push_back(index);
    }
    return visible;
}

const std::vector<std::unique_ptr<Device>>& node_devices(std::vector<std::string>& complaints) {
    static auto& lock = *new std::mutex;
    static auto& all = *new std::vector<std::unique_ptr<Device>>;
    const std::lock_guard guard(lock);
    if (!all.empty())
        return all;
    const std::vector<PciAddress> gpus = addresses(complaints);
    for (std::size_t i = 0; i < gpus.size() && complaints.empty(); ++i) {
        auto device = std::make_unique<Device>();
        device->physical = static_cast<int>(i);
        device->pci = gpus[i];
        device->uuid = uuid_of(device->bus_id());
        device->memory = std::make_unique<DeviceMemory>(device->uuid_text(), settings().memory);
        all.push_back(std::move(device));
    }
    return all;
}

DeviceTable::DeviceTable(std::vector<std::string>& complaints) {
    const std::vector<std::unique_ptr<Device>>& all = node_devices(complaints);
    std::vector<int> visible;
    if (const char* text = std::getenv("CUDA_VISIBLE_DEVICES"); text != nullptr)
        visible = visible_devices(text, all);
    else
        for (const auto& device : all)
            visible.push_back(device->physical);
    for (const int index : visible) {
        Device* const device = all[static_cast<std::size_t>(index)].get();
        device->ordinal = count();
        devices_.push_back(device);
    }
}

Device* DeviceTable::by_uuid(const std::array<unsigned char, 16>& uuid) {
    for (Device* device : devices_)
        if (device->uuid == uuid)
            return device;
    return nullptr;
}

}  // namespace vgpu
