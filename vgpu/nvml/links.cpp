// NVML: NVLink and peer access. Where the machine has NVLink, all links of a device go to switches.
#include <chrono>
#include <cstdio>
#include <span>

#include "vgpu/nvml/node.hpp"

using namespace vgpu::nvml;

namespace {

constexpr unsigned kMostLinks = 18;  // NVML_NVLINK_MAX_LINKS

// An A100 has 12 links, an H100 18 (NVIDIA's architecture white papers); no other machine of VGPU_MACHINE has any.
unsigned links() {
    const vgpu_node node = vgpu_node_get();
    if (node.nvlink == 0)
        return 0;
    return node.major >= 9 ? kMostLinks : 12;
}

nvmlReturn_t check_link(nvmlDevice_t device, unsigned link, const void* result) {
    int index = 0;
    if (const nvmlReturn_t bad = check(device, index); bad != NVML_SUCCESS)
        return bad;
    if (link >= kMostLinks || result == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    return link < links() ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

// A switch that the host does not see on its PCI buses has this address, as in a virtual machine (NCCL, graph/xml.cc).
nvmlReturn_t remote(nvmlDevice_t device, unsigned link, nvmlPciInfo_t* pci, bool whole) {
    if (const nvmlReturn_t bad = check_link(device, link, pci); bad != NVML_SUCCESS)
        return bad;
    give_address({0xfffffff, 0xffff, 0xff, {}, 0, 0}, pci, whole);
    std::snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "fffffff:ffff:ff");
    if (whole)
        std::snprintf(pci->busId, sizeof pci->busId, "fffffff:ffff:ff");
    return NVML_SUCCESS;
}

nvmlReturn_t field(nvmlFieldValue_t& value) {
    constexpr unsigned kUnsignedInt = 1;
    value.valueType = kUnsignedInt;
    switch (value.fieldId) {
        case NVML_FI_DEV_NVLINK_LINK_COUNT:
            value.value.uiVal = links();
            return NVML_SUCCESS;
        case NVML_FI_DEV_NVLINK_GET_STATE:
            if (value.scopeId >= links())
                return NVML_ERROR_NOT_SUPPORTED;
            value.value.uiVal = NVML_FEATURE_ENABLED;
            return NVML_SUCCESS;
        default:
            return NVML_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t* active) {
    if (const nvmlReturn_t bad = check_link(device, link, active); bad != NVML_SUCCESS)
        return bad;
    *active = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, nvmlNvLinkCapability_t capability,
                                           unsigned int* result) {
    if (const nvmlReturn_t bad = check_link(device, link, result); bad != NVML_SUCCESS)
        return bad;
    switch (capability) {
        case NVML_NVLINK_CAP_P2P_SUPPORTED:
        case NVML_NVLINK_CAP_P2P_ATOMICS:
        case NVML_NVLINK_CAP_VALID:
            *result = 1;
            return NVML_SUCCESS;
        case NVML_NVLINK_CAP_SYSMEM_ACCESS:
        case NVML_NVLINK_CAP_SYSMEM_ATOMICS:
        case NVML_NVLINK_CAP_SLI_BRIDGE:
            *result = 0;
            return NVML_SUCCESS;
        default:
            return NVML_ERROR_INVALID_ARGUMENT;
    }
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci) {
    return remote(device, link, pci, false);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci) {
    return remote(device, link, pci, true);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t* type) {
    if (const nvmlReturn_t bad = check_link(device, link, type); bad != NVML_SUCCESS)
        return bad;
    *type = NVML_NVLINK_DEVICE_TYPE_SWITCH;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, nvmlGpuP2PCapsIndex_t capability,
                                    nvmlGpuP2PStatus_t* status) {
    int index = 0;
    for (nvmlDevice_t one : {device, peer})
        if (const nvmlReturn_t bad = check(one, index); bad != NVML_SUCCESS)
            return bad;
    if (status == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    const vgpu_node node = vgpu_node_get();
    bool can = false;
    switch (capability) {
        case NVML_P2P_CAPS_INDEX_READ:
        case NVML_P2P_CAPS_INDEX_WRITE:
            can = node.peers != 0;
            break;
        case NVML_P2P_CAPS_INDEX_NVLINK:
        case NVML_P2P_CAPS_INDEX_ATOMICS:
            can = node.nvlink != 0;
            break;
        case NVML_P2P_CAPS_INDEX_PCI:
            can = node.peers != 0 && node.nvlink == 0;
            break;
        default:
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    *status = can || device == peer ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
    int index = 0;
    if (const nvmlReturn_t bad = check(device, index); bad != NVML_SUCCESS)
        return bad;
    if (count <= 0 || values == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    for (nvmlFieldValue_t& value : std::span(values, static_cast<std::size_t>(count))) {
        value.timestamp = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
        value.latencyUsec = 0;
        value.nvmlReturn = field(value);
    }
    return NVML_SUCCESS;
}
