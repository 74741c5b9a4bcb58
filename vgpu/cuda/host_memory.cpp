// Page-locked host memory: allocated by the driver, or the program's own that it registers.
#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace vgpu::cuda {

char* allocate_host_pages(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

void release_host_pages(const Allocation& allocation) {
    munmap(allocation.alias, allocation.bytes);
}

}  // namespace vgpu::cuda

namespace {

CUresult allocate_pinned(const Entry& entry, void** out, std::size_t bytes, unsigned flags) {
    constexpr unsigned kKnown = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (out == nullptr || bytes == 0 || (flags & ~kKnown) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    Allocation allocation;
    allocation.alias = allocate_host_pages(bytes);
    if (allocation.alias == nullptr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation.address = at(allocation.alias);
    allocation.bytes = bytes;
    allocation.kind = MemoryKind::Pinned;
    allocation.device = entry.context().device().ordinal;
    allocation.flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;  // with unified addresses all pinned memory is mapped
    allocation.context = &entry.context();
    allocations().add(allocation);
    *out = allocation.alias;
    Logged(entry.name(), nullptr, Fields().add("bytes", bytes).address("address", allocation.address)).launch();
    return CUDA_SUCCESS;
}

bool all_mapped(std::uintptr_t address, std::size_t bytes) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = address / page * page;
    // msync looks only: MS_ASYNC starts nothing on Linux, and ENOMEM says that a page is not mapped.
    return msync(reinterpret_cast<void*>(begin), address + bytes - begin, MS_ASYNC) == 0;
}

CUresult register_memory(const Entry& entry, void* pointer, std::size_t bytes, unsigned flags) {
    constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (pointer == nullptr || bytes == 0 || (flags & ~kKnown) != 0 || at(pointer) + bytes < at(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (allocations().overlaps(at(pointer), bytes)) {
        const auto held = allocations().find(at(pointer));
        return held && !held->page_locked() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (may_be_device_address(at(pointer)) || !all_mapped(at(pointer), bytes))
        return CUDA_ERROR_INVALID_VALUE;
    Allocation allocation;
    allocation.alias = static_cast<char*>(pointer);
    allocation.address = at(pointer);
    allocation.bytes = bytes;
    allocation.kind = MemoryKind::Registered;
    allocation.device = entry.context().device().ordinal;
    allocation.flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP;
    allocation.context = &entry.context();
    if (!allocations().add(allocation))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    Logged(entry.name(), nullptr, Fields().add("bytes", bytes).address("address", allocation.address)).launch();
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
    VGPU_ENTER(cuMemHostAlloc, Needs::Context);
    return allocate_pinned(entry, out, bytes, flags);
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
    VGPU_ENTER(cuMemAllocHost, Needs::Context);
    return allocate_pinned(entry, out, bytes, 0);
}

CUresult cuMemFreeHost(void* pointer) {
    VGPU_ENTER(cuMemFreeHost, Needs::Context);
    if (pointer == nullptr)
        return CUDA_SUCCESS;
    const auto found = allocations().find(at(pointer));
    if (!found || found->kind != MemoryKind::Pinned || found->address != at(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    Logged(entry.name(), nullptr, Fields().add("bytes", found->bytes).address("address", found->address)).launch();
    if (found->context->active())
        found->context->synchronize();
    const auto removed = allocations().remove(at(pointer));
    if (!removed)
        return CUDA_ERROR_INVALID_VALUE;
    release_allocation(*removed);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
    VGPU_ENTER(cuMemHostGetDevicePointer, Needs::Context);
    const auto found = allocations().find(at(pointer));
    if (out == nullptr || flags != 0 || !found || !found->page_locked())
        return CUDA_ERROR_INVALID_VALUE;
    *out = at(pointer);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
    VGPU_ENTER(cuMemHostGetFlags, Needs::Context);
    const auto found = allocations().find(at(pointer));
    if (flags == nullptr || !found || found->kind != MemoryKind::Pinned)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = found->flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
    VGPU_ENTER(cuMemHostRegister, Needs::Context);
    return register_memory(entry, pointer, bytes, flags);
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
    VGPU_ENTER(cuMemHostRegister, Needs::Context);
    return register_memory(entry, pointer, bytes, flags);
}

CUresult cuMemHostUnregister(void* pointer) {
    VGPU_ENTER(cuMemHostUnregister, Needs::Context);
    if (pointer == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const auto found = allocations().find(at(pointer));
    if (!found || found->kind != MemoryKind::Registered)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (found->address != at(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    Logged(entry.name(), nullptr, Fields().add("bytes", found->bytes).address("address", found->address)).launch();
    if (found->context->active())
        found->context->synchronize();
    allocations().remove(at(pointer));
    return CUDA_SUCCESS;
}
