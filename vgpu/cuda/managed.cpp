// Managed memory: pages of the process that host and virtual device both use at one address.
#include <map>
#include <mutex>

#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
    VGPU_ENTER(cuMemAllocManaged, Needs::Context);
    if (out == nullptr || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    Allocation allocation;
    allocation.alias = allocate_host_pages(bytes);
    if (allocation.alias == nullptr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation.address = at(allocation.alias);
    allocation.bytes = bytes;
    allocation.kind = MemoryKind::Managed;
    allocation.device = entry.context().device().ordinal;
    allocation.flags = flags;
    allocation.context = &entry.context();
    allocations().add(allocation);
    *out = allocation.address;
    Logged(entry.name(), nullptr, Fields().add("bytes", bytes).address("address", allocation.address)).launch();
    return CUDA_SUCCESS;
}

namespace {

// The advice that a program has given for a managed range. CUDA stores it per page; programs give it for whole
// allocations, so it is stored per allocation.
struct Advice {
    bool read_mostly = false;
    int preferred = CU_DEVICE_INVALID;
    int prefetched = CU_DEVICE_INVALID;
};

struct AdviceTable {
    std::mutex lock;
    std::map<std::uint64_t, Advice> by_id;
};

AdviceTable& advice_table() {
    static auto& table = *new AdviceTable;
    return table;
}

template <typename Change>
void change_advice(std::uint64_t id, Change change) {
    const std::lock_guard guard(advice_table().lock);
    change(advice_table().by_id[id]);
}

CUresult check_range(CUdeviceptr pointer, std::size_t bytes, Allocation& allocation) {
    const auto found = allocations().find_range(at(pointer), bytes);
    if (bytes == 0 || !found || found->kind != MemoryKind::Managed)
        return CUDA_ERROR_INVALID_VALUE;
    allocation = *found;
    return CUDA_SUCCESS;
}

bool device_of_location(CUmemLocation location, int& device) {
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE:
            device = location.id;
            return devices().valid(location.id);
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
            device = CU_DEVICE_CPU;
            return true;
        default:
            return false;
    }
}

bool location_of_device(CUdevice device, CUmemLocation& location) {
    location = {};
    location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device == CU_DEVICE_CPU ? 0 : device;
    return device == CU_DEVICE_CPU || devices().valid(device);
}

CUresult prefetch(const Entry& entry, CUdeviceptr pointer, std::size_t bytes, CUmemLocation location, unsigned flags,
                  CUstream stream) {
    Allocation allocation;
    int device = 0;
    if (const CUresult result = check_range(pointer, bytes, allocation); result != CUDA_SUCCESS)
        return result;
    if (!device_of_location(location, device))
        return CUDA_ERROR_INVALID_DEVICE;
    const auto target = stream_of(entry, stream);
    if (target == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = admit(target, Use::NoNode); result != CUDA_SUCCESS)
        return result;
    const Logged logged(entry.name(), target.get(), Fields().add("bytes", bytes));
    logged.launch();
    target->context().submit(target, Work::Empty, logged.wrap([id = allocation.id, device] {
        change_advice(id, [&](Advice& advice) { advice.prefetched = device; });
    }),
                             {}, entry.hang());
    return CUDA_SUCCESS;
}

CUresult advise(CUdeviceptr pointer, std::size_t bytes, CUmem_advise what, CUmemLocation location) {
    Allocation allocation;
    int device = 0;
    if (const CUresult result = check_range(pointer, bytes, allocation); result != CUDA_SUCCESS)
        return result;
    if (location.type == CU_MEM_LOCATION_TYPE_INVALID)  // also where the advice needs no location
        return CUDA_ERROR_INVALID_VALUE;
    const bool names_device = what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || what == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                              what == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (names_device && !device_of_location(location, device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (what < CU_MEM_ADVISE_SET_READ_MOSTLY || what > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    change_advice(allocation.id, [&](Advice& advice) {
        if (what == CU_MEM_ADVISE_SET_READ_MOSTLY || what == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
            advice.read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
        if (what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION)
            advice.preferred = device;
        if (what == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
            advice.preferred = CU_DEVICE_INVALID;
    });
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream) {
    VGPU_ENTER(cuMemPrefetchAsync, Needs::Context, Hang::Enqueues);
    CUmemLocation location;
    if (!location_of_device(device, location))
        return CUDA_ERROR_INVALID_DEVICE;
    return prefetch(entry, pointer, bytes, location, 0, stream);
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream) {
    return cuMemPrefetchAsync(pointer, bytes, device, per_thread(stream));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags,
                               CUstream stream) {
    VGPU_ENTER(cuMemPrefetchAsync, Needs::Context, Hang::Enqueues);
    return prefetch(entry, pointer, bytes, location, flags, stream);
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags,
                                    CUstream stream) {
    return cuMemPrefetchAsync_v2(pointer, bytes, location, flags, per_thread(stream));
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise what, CUdevice device) {
    VGPU_ENTER(cuMemAdvise, Needs::Context);
    CUmemLocation location;
    location_of_device(device, location);  // what is no device matters only to advice that names one
    return advise(pointer, bytes, what, location);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise what, CUmemLocation location) {
    VGPU_ENTER(cuMemAdvise, Needs::Context);
    return advise(pointer, bytes, what, location);
}

namespace {

CUresult range_attribute(void* data, std::size_t size, CUmem_range_attribute attribute, std::uint64_t id) {
    if (data == nullptr || size != sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    change_advice(id, [&](const Advice& advice) {
        int& value = *static_cast<int*>(data);
        switch (attribute) {
            case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
                value = advice.read_mostly ? 1 : 0;
                break;
            case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
                value = advice.preferred;
                break;
            case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
                value = advice.prefetched;
                break;
            default:
                result = CUDA_ERROR_NOT_SUPPORTED;
                break;
        }
    });
    return result;
}

}  // namespace

CUresult cuMemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute attribute, CUdeviceptr pointer,
                                size_t bytes) {
    VGPU_ENTER(cuMemRangeGetAttribute, Needs::Context);
    Allocation allocation;
    const CUresult result = check_range(pointer, bytes, allocation);
    return result == CUDA_SUCCESS ? range_attribute(data, size, attribute, allocation.id) : result;
}

CUresult cuMemRangeGetAttributes(void** data, size_t* sizes, CUmem_range_attribute* attributes, size_t count,
                                 CUdeviceptr pointer, size_t bytes) {
    VGPU_ENTER(cuMemRangeGetAttributes, Needs::Context);
    Allocation allocation;
    if (data == nullptr || sizes == nullptr || attributes == nullptr || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_range(pointer, bytes, allocation);
    for (std::size_t i = 0; i < count && result == CUDA_SUCCESS; ++i)
        result = range_attribute(data[i], sizes[i], attributes[i], allocation.id);
    return result;
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags) {
    VGPU_ENTER(cuStreamAttachMemAsync, Needs::Context);
    const auto found = allocations().find(at(pointer));
    if (!found || found->kind != MemoryKind::Managed || (bytes != 0 && bytes != found->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    const auto on = stream_of(entry, stream);
    return on == nullptr ? CUDA_ERROR_INVALID_HANDLE : admit(on, Use::NoNode);
}

CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags) {
    return cuStreamAttachMemAsync(per_thread(stream), pointer, bytes, flags);
}
