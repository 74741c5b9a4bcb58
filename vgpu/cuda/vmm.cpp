// The virtual memory management functions: physical memory by handle, mapped into reserved addresses. The physical
// memory is a memfd of its own, so exporting it is handing out its file descriptor.
#include "vgpu/cuda/vmm.hpp"

#include <map>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgpu/cuda/api.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

constexpr std::size_t kGranularity = 2u << 20;

// Physical memory. It exists as long as a handle, a mapping or another process refers to it.
struct Physical {
    Physical(int memory_file, std::size_t size, int on, unsigned types, bool is_imported)
        : file(memory_file), bytes(size), device(on), handle_types(types), imported(is_imported) {}
    ~Physical() {
        close(file);
        if (!imported)  // what another process made is on that one's account
            devices()[device].memory->ledger().release(bytes);
    }
    Physical(const Physical&) = delete;
    Physical& operator=(const Physical&) = delete;

    int file;
    std::size_t bytes;
    int device;
    unsigned handle_types;
    bool imported;
};

struct Mapping {
    std::shared_ptr<Physical> physical;
    std::size_t bytes;
};

struct Reservation {
    MappedRange range;
    std::map<std::uintptr_t, Mapping> mappings;  // by address
};

struct Space {
    std::mutex lock;
    std::map<CUmemGenericAllocationHandle, std::pair<std::shared_ptr<Physical>, int>>
        handles;  // with the number of references
    CUmemGenericAllocationHandle next = 0x1000;
    std::map<std::uintptr_t, Reservation> reservations;  // by begin

    Reservation* holder(std::uintptr_t address, std::size_t bytes) {
        auto after = reservations.upper_bound(address);
        if (after == reservations.begin())
            return nullptr;
        Reservation& found = std::prev(after)->second;
        return address + bytes <= found.range.address() + found.range.bytes() ? &found : nullptr;
    }
    CUmemGenericAllocationHandle add(std::shared_ptr<Physical> physical) {
        handles.emplace(++next, std::pair(std::move(physical), 1));
        return next;
    }
};

Space& space() {
    static auto& all = *new Space;
    return all;
}

bool valid(const CUmemAllocationProp& properties) {
    return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && devices().valid(properties.location.id);
}

char* alias_of(const Reservation& reservation, std::uintptr_t address) {
    return reservation.range.alias() + (address - reservation.range.address());
}

bool aligned(std::uintptr_t value) {
    return value % kGranularity == 0;
}

}  // namespace

namespace vgpu::cuda {

std::optional<Reserved> reservation_of(std::uintptr_t address) {
    const std::lock_guard guard(space().lock);
    const Reservation* const found = space().holder(address, 1);
    if (found == nullptr)
        return std::nullopt;
    return Reserved{found->range.address(), found->range.bytes()};
}

}  // namespace vgpu::cuda

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
    VGPU_ENTER(cuMemGetAllocationGranularity, Needs::Init);
    if (granularity == nullptr || properties == nullptr || !valid(*properties))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = kGranularity;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
    VGPU_ENTER(cuMemCreate, Needs::Init);
    if (handle == nullptr || properties == nullptr || flags != 0 || bytes == 0 || !aligned(bytes) ||
        !valid(*properties))
        return CUDA_ERROR_INVALID_VALUE;
    const auto types = static_cast<unsigned>(properties->requestedHandleTypes);
    if ((types & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    const int device = properties->location.id;
    MemoryLedger& ledger = devices()[device].memory->ledger();
    if (!ledger.charge(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const int file = memfd_create("vgpu-physical", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        close(file);
        ledger.release(bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Logged(entry.name(), nullptr, Fields().add("bytes", bytes)).launch();
    const std::lock_guard guard(space().lock);
    *handle = space().add(std::make_shared<Physical>(file, bytes, device, types, false));
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    VGPU_ENTER(cuMemRelease, Needs::Init);
    const std::lock_guard guard(space().lock);
    const auto found = space().handles.find(handle);
    if (found == space().handles.end())
        return CUDA_ERROR_INVALID_VALUE;
    if (--found->second.second == 0)
        space().handles.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long flags) {
    VGPU_ENTER(cuMemAddressReserve, Needs::Init);
    // The address that the program asks for is a hint, which the driver may ignore.
    if (out == nullptr || bytes == 0 || !aligned(bytes) || (alignment & (alignment - 1)) != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    Reservation reservation;
    if (!reservation.range.reserve(bytes, std::max(alignment, kGranularity)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const std::lock_guard guard(space().lock);
    *out = reservation.range.address();
    space().reservations.emplace(reservation.range.address(), std::move(reservation));
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    VGPU_ENTER(cuMemAddressFree, Needs::Init);
    const std::lock_guard guard(space().lock);
    const auto found = space().reservations.find(at(pointer));
    if (found == space().reservations.end() || found->second.range.bytes() != bytes || !found->second.mappings.empty())
        return CUDA_ERROR_INVALID_VALUE;
    space().reservations.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    VGPU_ENTER(cuMemMap, Needs::Init);
    const std::lock_guard guard(space().lock);
    const auto found = space().handles.find(handle);
    Reservation* const reservation = space().holder(at(pointer), bytes);
    if (found == space().handles.end() || reservation == nullptr || offset != 0 || flags != 0 || bytes == 0 ||
        !aligned(bytes) || !aligned(at(pointer)) || bytes > found->second.first->bytes ||
        allocations().overlaps(at(pointer), bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const auto& physical = found->second.first;
    void* const alias = alias_of(*reservation, at(pointer));
    if (mmap(alias, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, physical->file, 0) ==
        MAP_FAILED)
        return CUDA_ERROR_MAP_FAILED;
    Allocation allocation;
    allocation.address = at(pointer);
    allocation.alias = static_cast<char*>(alias);
    allocation.bytes = bytes;
    allocation.kind = MemoryKind::Mapped;
    allocation.accessible = false;
    allocation.device = physical->device;
    allocation.flags = physical->handle_types;
    allocation.reservation = reservation->range.address();
    allocations().add(allocation);
    reservation->mappings.emplace(at(pointer), Mapping{physical, bytes});
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access, size_t count) {
    VGPU_ENTER(cuMemSetAccess, Needs::Init);
    if (access == nullptr || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    bool reachable = false;
    for (std::size_t i = 0; i < count; ++i) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !devices().valid(access[i].location.id))
            return CUDA_ERROR_INVALID_VALUE;
        reachable = reachable || access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    for (std::uintptr_t address = at(pointer); address < at(pointer) + bytes;) {
        const auto found = allocations().find(address);
        if (!found || found->kind != MemoryKind::Mapped || found->address != address ||
            found->end() > at(pointer) + bytes)
            return CUDA_ERROR_INVALID_VALUE;
        allocations().update(address, [&](Allocation& a) { a.accessible = reachable; });
        address = found->end();
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
    VGPU_ENTER(cuMemGetAccess, Needs::Init);
    const auto found = allocations().find(at(pointer));
    if (flags == nullptr || location == nullptr || !found || found->kind != MemoryKind::Mapped)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = found->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    VGPU_ENTER(cuMemUnmap, Needs::Init);
    const std::lock_guard guard(space().lock);
    Reservation* const reservation = space().holder(at(pointer), bytes);
    if (reservation == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    auto& mappings = reservation->mappings;
    std::uintptr_t end = at(pointer);
    for (auto mapping = mappings.find(end);
         mapping != mappings.end() && mapping->first == end && end < at(pointer) + bytes; ++mapping)
        end += mapping->second.bytes;
    if (end != at(pointer) + bytes)  // mappings are unmapped whole
        return CUDA_ERROR_INVALID_VALUE;
    for (auto mapping = mappings.find(at(pointer)); mapping != mappings.end() && mapping->first < end;
         mapping = mappings.erase(mapping))
        allocations().remove(mapping->first);
    mmap(alias_of(*reservation, at(pointer)), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
         -1, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
    VGPU_ENTER(cuMemExportToShareableHandle, Needs::Init);
    const std::lock_guard guard(space().lock);
    const auto found = space().handles.find(handle);
    if (out == nullptr || flags != 0 || found == space().handles.end() ||
        (found->second.first->handle_types & static_cast<unsigned>(type)) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const int file = fcntl(found->second.first->file, F_DUPFD_CLOEXEC, 0);
    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(out) = file;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared,
                                        CUmemAllocationHandleType type) {
    VGPU_ENTER(cuMemImportFromShareableHandle, Needs::Context);
    if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    const int file = fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(shared)), F_DUPFD_CLOEXEC, 0);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0 || status.st_size == 0 ||
        !aligned(static_cast<std::uintptr_t>(status.st_size))) {
        if (file >= 0)
            close(file);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const std::lock_guard guard(space().lock);
    *handle =
        space().add(std::make_shared<Physical>(file, static_cast<std::size_t>(status.st_size),
                                               entry.context().device().ordinal, static_cast<unsigned>(type), true));
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
    VGPU_ENTER(cuMemRetainAllocationHandle, Needs::Init);
    const std::lock_guard guard(space().lock);
    Reservation* const reservation = space().holder(at(address), 1);
    const auto found = allocations().find(at(address));
    if (handle == nullptr || reservation == nullptr || !found)
        return CUDA_ERROR_INVALID_VALUE;
    const auto& physical = reservation->mappings.at(found->address).physical;
    for (auto& [number, entry_of] : space().handles)
        if (entry_of.first == physical) {
            ++entry_of.second;
            *handle = number;
            return CUDA_SUCCESS;
        }
    *handle = space().add(physical);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
    VGPU_ENTER(cuMemGetAllocationPropertiesFromHandle, Needs::Init);
    const std::lock_guard guard(space().lock);
    const auto found = space().handles.find(handle);
    if (properties == nullptr || found == space().handles.end())
        return CUDA_ERROR_INVALID_VALUE;
    *properties = {};
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties->location.id = found->second.first->device;
    properties->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(found->second.first->handle_types);
    return CUDA_SUCCESS;
}
