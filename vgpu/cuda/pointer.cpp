// cuPointerGetAttribute and its kin: queries about a pointer.
#include <chrono>
#include <cstring>
#include <thread>

#include "vgpu/cuda/api.hpp"
#include "vgpu/cuda/vmm.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

template <typename Value>
CUresult give(void* data, Value value) {
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

// The size of an attribute's value; 0 for one that does not exist.
std::size_t size_of(CUpointer_attribute attribute) {
    switch (static_cast<int>(attribute)) {  // older headers' enumeration lacks one
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            return sizeof(int);
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            return sizeof(std::uint64_t);
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
            return 0;  // for kernel modules that talk to NVIDIA's: there is none here
        default:
            return 0;
    }
}

CUmemorytype type_of(const Allocation& a) {
    // Managed memory is device memory in this answer, as the driver has it; page-locked memory is host memory.
    return a.page_locked() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

// "Not necessarily the address of the mapped region, but the address of the mappable address range", says cuda.h. Of
// reserved addresses where nothing is mapped, the driver knows nothing (both as driver 580 answers).
Reserved range_of(const Allocation& a) {
    if (a.mapped())
        if (const auto reserved = reservation_of(a.address))
            return *reserved;
    return {a.address, a.bytes};
}

// A pool maps more than each of its allocations has.
Reserved mapping_of(const Allocation& a) {
    constexpr std::uintptr_t kPage = 2u << 20;
    if (a.kind != MemoryKind::Pooled)
        return {a.address, a.bytes};
    const std::uintptr_t begin = a.address / kPage * kPage;
    return {begin, (a.end() + kPage - 1) / kPage * kPage - begin};
}

CUresult describe(void* data, CUpointer_attribute attribute, const Allocation& a, CUdeviceptr pointer) {
    switch (static_cast<int>(attribute)) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            // Memory that belongs to no context: mapped by cuMemMap, from a pool.
            return give(data, handle(a.mapped() || a.kind == MemoryKind::Pooled ? nullptr : a.context));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return give(data, static_cast<unsigned>(type_of(a)));
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return give(data, pointer);
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (!a.on_host())
                return CUDA_ERROR_INVALID_VALUE;
            return give(data, pointer);
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            return give(data, static_cast<unsigned>(a.sync_memops));
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return give(data, a.id);
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            return give(data, static_cast<unsigned>(a.kind == MemoryKind::Managed));
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return give(data, a.device);
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            return give(data, static_cast<unsigned>(a.kind == MemoryKind::Device));
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            return give(data, static_cast<CUdeviceptr>(range_of(a).address));
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            return give(data, range_of(a).bytes);
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            return give(data, static_cast<CUdeviceptr>(mapping_of(a).address));
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            return give(data, mapping_of(a).bytes);
        case CU_POINTER_ATTRIBUTE_MAPPED:
            return give(data, 1u);
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            return give(data, std::uint64_t{a.mapped() ? a.flags : 0u});
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            return give(data, 0u);
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            return give(data, static_cast<unsigned>(a.accessible ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                                                 : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE));
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return give(data, a.pool);
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            return give(data, a.id);
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
    VGPU_ENTER(cuPointerGetAttribute, Needs::Init);
    if (data == nullptr || size_of(attribute) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const auto found = allocations().find(at(pointer));
    return found ? describe(data, attribute, *found, pointer) : CUDA_ERROR_INVALID_VALUE;
}

// Unlike the single form this one succeeds for pointers that the driver does not know: their attributes are zero, and
// the device ordinal is CU_DEVICE_INVALID.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
    VGPU_ENTER(cuPointerGetAttributes, Needs::Init);
    if (count == 0 || attributes == nullptr || data == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i)
        if (data[i] == nullptr || size_of(attributes[i]) == 0)
            return CUDA_ERROR_INVALID_VALUE;
    const auto found = allocations().find(at(pointer));
    for (unsigned i = 0; i < count; ++i) {
        std::memset(data[i], 0, size_of(attributes[i]));
        if (found)
            describe(data[i], attributes[i], *found, pointer);
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            give(data[i], static_cast<int>(CU_DEVICE_INVALID));
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    VGPU_ENTER(cuPointerSetAttribute, Needs::Init);
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned wanted = 0;
    std::memcpy(&wanted, value, sizeof wanted);
    const auto found = allocations().find(at(pointer));
    if (!found || found->page_locked() || found->address != at(pointer))
        return CUDA_ERROR_INVALID_DEVICE;
    // Refused for memory of the virtual memory management, as UCX has seen it on driver 535 (its issue 9895). For
    // memory of pools driver 580 says success, and copies return as early as ever.
    if (found->kind == MemoryKind::Mapped)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (found->kind == MemoryKind::Pooled)
        return CUDA_SUCCESS;
    allocations().update(at(pointer), [&](Allocation& a) { a.sync_memops = wanted != 0; });
    // "The function does not return until those memory operations are complete": synchronous ones made before.
    while (wanted != 0 && found->memops_under_way->load() != 0)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    return CUDA_SUCCESS;
}
