// Device queries.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/api.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    VGPU_ENTER(cuDeviceGet, Needs::Init);
    if (device == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    VGPU_ENTER(cuDeviceGetCount, Needs::Init);
    if (count == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *count = devices().count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    VGPU_ENTER(cuDeviceGetName, Needs::Init);
    if (name == nullptr || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(length), "%s", kDeviceName);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    VGPU_ENTER(cuDeviceTotalMem, Needs::Init);
    if (bytes == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = devices()[device].memory->ledger().limit();
    return CUDA_SUCCESS;
}

namespace {

CUresult get_uuid(CUuuid* uuid, CUdevice device) {
    if (uuid == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(uuid->bytes, devices()[device].uuid.data(), sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    VGPU_ENTER(cuDeviceGetUuid, Needs::Init);
    return get_uuid(uuid, device);
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    VGPU_ENTER(cuDeviceGetUuid, Needs::Init);
    return get_uuid(uuid, device);
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
    VGPU_ENTER(cuDeviceGetPCIBusId, Needs::Init);
    if (text == nullptr || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const std::string id = devices()[device].bus_id();
    if (id.size() + 1 > static_cast<std::size_t>(length))
        return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(text, id.c_str(), id.size() + 1);
    return CUDA_SUCCESS;
}

// "[domain]:[bus]:[device].[function]", "[domain]:[bus]:[device]" or "[bus]:[device].[function]", all hexadecimal.
CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
    VGPU_ENTER(cuDeviceGetByPCIBusId, Needs::Init);
    if (device == nullptr || text == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    PciAddress pci;
    unsigned function = 0;
    const bool with_domain = std::count(text, text + std::strlen(text), ':') == 2;
    const int read = with_domain ? std::sscanf(text, "%x:%x:%x.%x", &pci.domain, &pci.bus, &pci.device, &function)
                                 : std::sscanf(text, "%x:%x.%x", &pci.bus, &pci.device, &function);
    if (read < (with_domain ? 3 : 2) || function != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < devices().count(); ++i) {
        const PciAddress& own = devices()[i].pci;
        if (own.domain == pci.domain && own.bus == pci.bus && own.device == pci.device) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    VGPU_ENTER(cuDeviceGetAttribute, Needs::Init);
    if (value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const Device& d = devices()[device];
    switch (static_cast<int>(attribute)) {  // older headers' enumeration lacks some
        case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
            *value = static_cast<int>(d.pci.domain);
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
            *value = static_cast<int>(d.pci.bus);
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
            *value = static_cast<int>(d.pci.device);
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
            *value = d.physical;
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = settings().major;
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = settings().minor;
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            *value = settings().multiprocessors;
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
            *value = settings().driver >= 12020 ? 1 : 0;
            return CUDA_SUCCESS;
#define VGPU_ATTRIBUTE(name, number) \
    case CU_DEVICE_ATTRIBUTE_##name: \
        *value = number;             \
        return CUDA_SUCCESS;
#include "vgpu/cuda/device_attributes.def"
#undef VGPU_ATTRIBUTE
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    VGPU_ENTER(cuDeviceComputeCapability, Needs::Init);
    if (major == nullptr || minor == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = settings().major;
    *minor = settings().minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    VGPU_ENTER(cuDeviceCanAccessPeer, Needs::Init);
    if (can == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device) || !devices().valid(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && settings().peers ? 1 : 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice target) {
    VGPU_ENTER(cuDeviceGetP2PAttribute, Needs::Init);
    if (value == nullptr || source == target)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(source) || !devices().valid(target))
        return CUDA_ERROR_INVALID_DEVICE;
    switch (static_cast<int>(attribute)) {
        case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
            *value = 0;
            return CUDA_SUCCESS;
        case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
            *value = settings().peers ? 1 : 0;
            return CUDA_SUCCESS;
        case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
            *value = settings().nvlink ? 1 : 0;
            return CUDA_SUCCESS;
        case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
            *value = 0;
            return CUDA_SUCCESS;
        case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
            *value = 0;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}
