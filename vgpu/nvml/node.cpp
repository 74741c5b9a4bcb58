#include "vgpu/nvml/node.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>

// A handle is the address of one of these, by whose place it is known.
struct nvmlDevice_st {
    char place;
};

namespace vgpu::nvml {

namespace {

constexpr int kMost = 64;  // VGPU_COUNT's bound; a topology may have more, which have no handles then
std::array<nvmlDevice_st, kMost> g_handles{};
std::mutex g_lock;
int g_opened = 0;

}  // namespace

bool open() {
    const std::lock_guard guard(g_lock);
    if (vgpu_node_device_count() < 0)
        return false;
    ++g_opened;
    return true;
}

bool close() {
    const std::lock_guard guard(g_lock);
    if (g_opened == 0)
        return false;
    --g_opened;
    return true;
}

bool is_open() {
    const std::lock_guard guard(g_lock);
    return g_opened > 0;
}

int device_count() {
    const int count = vgpu_node_device_count();
    return count > kMost ? kMost : count;
}

int index_of(nvmlDevice_t device) {
    for (int i = 0; i < device_count(); ++i)
        if (device == handle_of(i))
            return i;
    return -1;
}

nvmlDevice_t handle_of(int index) {
    return &g_handles[static_cast<std::size_t>(index)];
}

vgpu_node_device device_at(int index) {
    vgpu_node_device device{};
    vgpu_node_device_get(index, &device);
    return device;
}

nvmlReturn_t check(nvmlDevice_t device, int& index) {
    if (!is_open())
        return NVML_ERROR_UNINITIALIZED;
    index = index_of(device);
    return index < 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t give(const char* text, char* to, unsigned int length) {
    if (to == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    const std::size_t bytes = std::strlen(text) + 1;
    if (bytes > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    std::memcpy(to, text, bytes);
    return NVML_SUCCESS;
}

void give_address(const vgpu_node_device& from, nvmlPciInfo_t* to, bool whole) {
    constexpr unsigned kNvidia = 0x10de;  // virtual GPUs have no device id beside the vendor's
    std::snprintf(to->busIdLegacy, sizeof to->busIdLegacy, "%04X:%02X:%02X.0", from.domain & 0xffff, from.bus & 0xff,
                  from.device & 0xff);
    to->domain = from.domain;
    to->bus = from.bus;
    to->device = from.device;
    to->pciDeviceId = kNvidia;
    to->pciSubSystemId = 0;
    if (whole)
        std::snprintf(to->busId, sizeof to->busId, "%08X:%02X:%02X.0", from.domain, from.bus, from.device);
}

}  // namespace vgpu::nvml
