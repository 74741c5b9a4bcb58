// Device memory: cuMemAlloc and its kin.
#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/device_heap.hpp"
#include "vgpu/cuda/release.hpp"

#include "vgpu/cuda/ipc.hpp"
#include "vgpu/cuda/pool.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

CUresult allocate(const Entry& entry, CUdeviceptr* out, std::size_t bytes) {
    if (out == nullptr || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    Context& context = entry.context();
    Allocation allocation;
    if (context.device().memory->allocate(bytes, allocation.block) != DeviceMemory::Result::Ok)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation.address = allocation.block.address;
    allocation.alias = allocation.block.alias;
    allocation.bytes = bytes;
    allocation.kind = MemoryKind::Device;
    allocation.device = context.device().ordinal;
    allocation.context = &context;
    allocations().add(allocation);
    *out = allocation.address;
    Logged(entry.name(), nullptr, Fields().add("bytes", bytes).address("address", allocation.address)).launch();
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
    VGPU_ENTER(cuMemAlloc, Needs::Context);
    return allocate(entry, out, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned int element) {
    VGPU_ENTER(cuMemAllocPitch, Needs::Context);
    if (pitch == nullptr || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    constexpr std::size_t kPitch = 512;
    *pitch = (width + kPitch - 1) / kPitch * kPitch;
    return allocate(entry, out, *pitch * height);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    VGPU_ENTER(cuMemFree, Needs::Context);
    if (pointer == 0)
        return CUDA_SUCCESS;
    const auto found = allocations().find(at(pointer));
    const bool freeable =
        found && found->address == at(pointer) &&
        (found->kind == MemoryKind::Device || found->kind == MemoryKind::Pooled || found->kind == MemoryKind::Managed);
    if (!freeable)
        return CUDA_ERROR_INVALID_VALUE;
    Logged(entry.name(), nullptr, Fields().add("bytes", found->bytes).address("address", found->address)).launch();
    // Work that was submitted before and may use the memory comes first, as cuMemFree's implicit synchronisation has
    // it.
    if (found->context->active())
        found->context->synchronize();
    const auto removed = allocations().remove(found->address);
    if (!removed)
        return CUDA_ERROR_INVALID_VALUE;
    release_allocation(*removed);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    VGPU_ENTER(cuMemGetInfo, Needs::Context);
    if (free == nullptr || total == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    MemoryLedger& ledger = entry.context().device().memory->ledger();
    const std::size_t used = ledger.used();
    *total = ledger.limit();
    *free = used < *total ? *total - used : 0;  // another process may have been given a larger limit
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
    VGPU_ENTER(cuMemGetAddressRange, Needs::Context);
    const auto found = allocations().find(at(pointer));
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr)
        *base = found->address;
    if (bytes != nullptr)
        *bytes = found->bytes;
    return CUDA_SUCCESS;
}

namespace vgpu::cuda {

void release_allocation(const Allocation& allocation) {
    switch (allocation.kind) {
        case MemoryKind::Device:
            devices()[allocation.device].memory->free(allocation.block);
            break;
        case MemoryKind::Pooled:
            release_pooled(allocation);
            break;
        case MemoryKind::Imported:
            release_imported(allocation);
            break;
        case MemoryKind::Managed:
        case MemoryKind::Pinned:
            release_host_pages(allocation);
            break;
        case MemoryKind::Mapped:
        case MemoryKind::MappedHost:
        case MemoryKind::Registered:
            break;  // the memory is the program's
    }
}

void release_context(Context& context) {
    end_captures(context);
    context.deactivate();
    for (const Allocation& allocation : allocations().of(&context))
        if (const auto removed = allocations().remove(allocation.address))
            release_allocation(*removed);
    stream_handles().remove_if([&](Stream& stream) { return &stream.context() == &context; });
    event_handles().remove_if([&](Event& event) { return &event.context() == &context; });
    release_device_heap(context);
    release_modules(context);
}

}  // namespace vgpu::cuda
