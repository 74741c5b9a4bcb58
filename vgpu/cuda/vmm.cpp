// The virtual memory management functions: physical memory by handle, mapped into reserved addresses. The physical
// memory is a memfd of its own, so exporting it is handing out its file descriptor.
#include "vgpu/cuda/vmm.hpp"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/api.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

constexpr std::size_t kGranularity = 2u << 20;

// The memfds' names, by which another process that imports one knows where the memory is.
constexpr const char *kOnDevice = "vgpu-physical", *kOnHost = "vgpu-physical-host";

// Physical memory. It exists as long as a handle, a mapping or another process refers to it.
struct Physical {
    Physical(int memory_file, std::size_t size, CUmemLocation where, unsigned types, bool is_imported)
        : file(memory_file), bytes(size), location(where), handle_types(types), imported(is_imported) {}
    ~Physical() {
        close(file);
        if (!imported && !on_host())  // what another process made is on that one's account
            devices()[location.id].memory->ledger().release(bytes);
    }
    Physical(const Physical&) = delete;
    Physical& operator=(const Physical&) = delete;

    bool on_host() const { return location.type != CU_MEM_LOCATION_TYPE_DEVICE; }

    int file;
    std::size_t bytes;
    CUmemLocation location;
    unsigned handle_types;
    bool imported;
};

struct Mapping {
    std::shared_ptr<Physical> physical;
    std::size_t bytes;
    CUmemAccess_flags host_access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
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

// The host's memory is a location since CUDA 12.2.
bool is_host(const CUmemLocation& location) {
    if (settings().driver < 12020)
        return false;
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
            return true;
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
            return location.id == 0 ||
                   access(("/sys/devices/system/node/node" + std::to_string(location.id)).c_str(), F_OK) == 0;
        default:
            return false;
    }
}

bool is_device(const CUmemLocation& location) {
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE && devices().valid(location.id);
}

bool valid(const CUmemAllocationProp& properties) {
    return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           (is_device(properties.location) || is_host(properties.location));
}

// What the program's own addresses of host memory show to the host. The kernel's mapping is over the reserved range.
bool show_to_host(std::uintptr_t address, std::size_t bytes, CUmemAccess_flags flags, int file) {
    const int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                           : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                       : PROT_NONE;
    return mmap(reinterpret_cast<void*>(address), bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) !=
           MAP_FAILED;
}

void hide_from_host(std::uintptr_t address, std::size_t bytes) {
    mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
         -1, 0);
}

char* alias_of(const Reservation& reservation, std::uintptr_t address) {
    return reservation.range.alias() + (address - reservation.range.address());
}

// Whether a memfd that came from another process is one of host memory.
bool made_on_host(int file) {
    char target[64] = {};
    const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), target, sizeof target - 1);
    return length > 0 && std::string_view(target).starts_with("/memfd:" + std::string(kOnHost));
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
    const bool on_host = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    MemoryLedger* const ledger = on_host ? nullptr : &devices()[properties->location.id].memory->ledger();
    if (ledger != nullptr && !ledger->charge(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const int file = memfd_create(on_host ? kOnHost : kOnDevice, MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        if (file >= 0)
            close(file);
        if (ledger != nullptr)
            ledger->release(bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Logged(entry.name(), nullptr, Fields().add("bytes", bytes)).launch();
    const std::lock_guard guard(space().lock);
    *handle = space().add(std::make_shared<Physical>(file, bytes, properties->location, types, false));
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
    allocation.kind = physical->on_host() ? MemoryKind::MappedHost : MemoryKind::Mapped;
    allocation.accessible = false;
    allocation.device = physical->on_host() ? CU_DEVICE_CPU : physical->location.id;
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
    bool by_device = false, reachable = false, by_host = false;
    CUmemAccess_flags host_access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (std::size_t i = 0; i < count; ++i) {
        if (is_device(access[i].location)) {
            by_device = true;
            reachable = reachable || access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        } else if (is_host(access[i].location)) {
            by_host = true;
            host_access = access[i].flags;
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    const std::lock_guard guard(space().lock);
    Reservation* const reservation = space().holder(at(pointer), bytes);
    if (reservation == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    for (std::uintptr_t address = at(pointer); address < at(pointer) + bytes;) {
        const auto found = allocations().find(address);
        const auto mapping = reservation->mappings.find(address);
        if (!found || mapping == reservation->mappings.end() || found->end() > at(pointer) + bytes)
            return CUDA_ERROR_INVALID_VALUE;
        if (by_host && !mapping->second.physical->on_host())  // the host does not reach a device's memory
            return CUDA_ERROR_NOT_SUPPORTED;
        if (by_host && !show_to_host(address, found->bytes, host_access, mapping->second.physical->file))
            return CUDA_ERROR_MAP_FAILED;
        if (by_host)
            mapping->second.host_access = host_access;
        if (by_device)
            allocations().update(address, [&](Allocation& a) { a.accessible = reachable; });
        address = found->end();
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
    VGPU_ENTER(cuMemGetAccess, Needs::Init);
    const std::lock_guard guard(space().lock);
    const auto found = allocations().find(at(pointer));
    Reservation* const reservation = space().holder(at(pointer), 1);
    if (flags == nullptr || location == nullptr || !found || reservation == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_host(*location))
        *flags = reservation->mappings.at(found->address).host_access;
    else
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
         mapping = mappings.erase(mapping)) {
        if (mapping->second.physical->on_host())
            hide_from_host(mapping->first, mapping->second.bytes);
        allocations().remove(mapping->first);
    }
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
    CUmemLocation location{};
    location.type = made_on_host(file) ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = location.type == CU_MEM_LOCATION_TYPE_HOST ? 0 : entry.context().device().ordinal;
    const std::lock_guard guard(space().lock);
    *handle = space().add(std::make_shared<Physical>(file, static_cast<std::size_t>(status.st_size), location,
                                                     static_cast<unsigned>(type), true));
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
    properties->location = found->second.first->location;
    properties->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(found->second.first->handle_types);
    return CUDA_SUCCESS;
}
