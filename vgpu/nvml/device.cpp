// NVML: the devices and what they say of themselves. CUDA_VISIBLE_DEVICES hides none of them.
#include <cstdio>
#include <cstring>

#include "vgpu/nvml/node.hpp"

using namespace vgpu::nvml;

namespace {

template <typename Predicate>
nvmlReturn_t find(nvmlDevice_t* device, Predicate predicate) {
    for (int i = 0; i < device_count(); ++i)
        if (predicate(device_at(i))) {
            *device = handle_of(i);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t count_of(unsigned int* count) {
    if (!is_open())
        return NVML_ERROR_UNINITIALIZED;
    if (count == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = static_cast<unsigned>(device_count());
    return NVML_SUCCESS;
}

nvmlReturn_t by_index(unsigned int index, nvmlDevice_t* device) {
    if (!is_open())
        return NVML_ERROR_UNINITIALIZED;
    if (device == nullptr || index >= static_cast<unsigned>(device_count()))
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = handle_of(static_cast<int>(index));
    return NVML_SUCCESS;
}

// "domain:bus:device.function" or "bus:device.function", all hexadecimal.
nvmlReturn_t by_address(const char* id, nvmlDevice_t* device) {
    if (!is_open())
        return NVML_ERROR_UNINITIALIZED;
    if (id == nullptr || device == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned domain = 0, bus = 0, place = 0, function = 0;
    if (std::sscanf(id, "%x:%x:%x.%x", &domain, &bus, &place, &function) < 3) {
        domain = 0;
        if (std::sscanf(id, "%x:%x.%x", &bus, &place, &function) < 2)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    return find(device, [&](const vgpu_node_device& one) {
        return one.domain == domain && one.bus == bus && one.device == place && function == 0;
    });
}

nvmlReturn_t address(nvmlDevice_t device, nvmlPciInfo_t* pci, bool whole) {
    int index = 0;
    if (const nvmlReturn_t bad = check(device, index); bad != NVML_SUCCESS)
        return bad;
    if (pci == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    give_address(device_at(index), pci, whole);
    return NVML_SUCCESS;
}

// For what virtual GPUs do not have.
nvmlReturn_t absent(nvmlDevice_t device) {
    int index = 0;
    const nvmlReturn_t bad = check(device, index);
    return bad != NVML_SUCCESS ? bad : NVML_ERROR_NOT_SUPPORTED;
}

}  // namespace

nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) {
    return count_of(count);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
    return count_of(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
    return by_index(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
    return by_index(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
    if (!is_open())
        return NVML_ERROR_UNINITIALIZED;
    if (uuid == nullptr || device == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    return find(device, [&](const vgpu_node_device& one) { return std::strcmp(one.uuid, uuid) == 0; });
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* device) {
    return by_address(id, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
    return by_address(id, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* to) {
    int index = 0;
    if (const nvmlReturn_t bad = check(device, index); bad != NVML_SUCCESS)
        return bad;
    if (to == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    *to = static_cast<unsigned>(index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
    int index = 0;
    const nvmlReturn_t bad = check(device, index);
    return bad != NVML_SUCCESS ? bad : give(vgpu_node_get().name, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
    int index = 0;
    const nvmlReturn_t bad = check(device, index);
    return bad != NVML_SUCCESS ? bad : give(device_at(index).uuid, uuid, length);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char*, unsigned int) {
    return absent(device);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
    return address(device, pci, false);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* pci) {
    return address(device, pci, false);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
    return address(device, pci, true);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int*) {
    return absent(device);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int*) {
    return absent(device);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int*) {
    return absent(device);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int*) {
    return absent(device);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
    int index = 0;
    if (const nvmlReturn_t bad = check(device, index); bad != NVML_SUCCESS)
        return bad;
    if (memory == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    const vgpu_node_device one = device_at(index);
    *memory = {one.memory, one.memory - one.used, one.used};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
    int index = 0;
    if (const nvmlReturn_t bad = check(device, index); bad != NVML_SUCCESS)
        return bad;
    if (memory == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    constexpr unsigned kVersion = sizeof(nvmlMemory_v2_t) | 2u << 24;
    if (memory->version != kVersion)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const vgpu_node_device one = device_at(index);
    *memory = {kVersion, one.memory, 0, one.memory - one.used, one.used};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
    int index = 0;
    if (const nvmlReturn_t bad = check(device, index); bad != NVML_SUCCESS)
        return bad;
    if (major == nullptr || minor == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    const vgpu_node node = vgpu_node_get();
    *major = node.major;
    *minor = node.minor;
    return NVML_SUCCESS;
}
