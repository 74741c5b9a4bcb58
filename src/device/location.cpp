#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "device/driver.hpp"
#include "device/listing.hpp"

namespace swy::device {

std::atomic<bool> any_device_moves{false};
std::atomic<bool> memops_may_stay{false};

namespace {

// Tells whether the host can read the word at an address. The kernel copies the new signal mask before it looks at
// `how`, which is invalid: EFAULT tells that it could not read the word, and nothing changes either way.
bool host_can_read(const void* address) {
    const auto word = reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{7};
    const int saved = errno;
    const bool readable = syscall(SYS_rt_sigprocmask, ~0, word, nullptr, sizeof(std::uint64_t)) == 0 || errno != EFAULT;
    errno = saved;
    return readable;
}

// Tells whether an address for which the query has failed counts as device memory.
bool unanswered_is_device(CUresult result, const void* address) {
    switch (result) {
        case CUDA_ERROR_INVALID_VALUE:    // not the driver's memory
        case CUDA_ERROR_NOT_INITIALIZED:  // nobody called cuInit, or not with success: no device memory can exist
        case CUDA_ERROR_NO_DEVICE:
        case CUDA_ERROR_STUB_LIBRARY:
        case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        case CUDA_ERROR_SYSTEM_NOT_READY:
            return false;
        default:
            // A context that died of an illegal access answers every call with that error, a driver at exit with
            // CUDA_ERROR_DEINITIALIZED. The memory is still mapped, and still must not be given to MPI.
            return !host_can_read(address);
    }
}

struct Attributes {
    CUmemorytype type{};  // 0: not the driver's memory
    unsigned managed = 0, sync_memops = 0;
    int ordinal = -1;
    Context context = nullptr;
    CUdeviceptr begin = 0;
    std::size_t size = 0;
};

CUresult query(const Driver& driver, const void* address, Attributes& found) {
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_SYNC_MEMOPS};
    void* values[] = {&found.type,  &found.managed, &found.ordinal,    &found.context,
                      &found.begin, &found.size,    &found.sync_memops};
    constexpr unsigned kCount = sizeof(names) / sizeof(names[0]);
    const CUresult result = driver.pointer_get_attributes(kCount, names, values, pointer(address));
    if (result == CUDA_SUCCESS)
        return result;
    // An attribute that the driver does not have for this memory (ranges came with 10.2) must not hide the others; and
    // the query for a single attribute is the one that on_device() uses.
    found = {};
    const CUresult single = driver.pointer_get_attribute(values[0], names[0], pointer(address));
    for (unsigned i = 1; single == CUDA_SUCCESS && i < kCount; ++i)
        if (driver.pointer_get_attribute(values[i], names[i], pointer(address)) != CUDA_SUCCESS)
            continue;
    return single;
}

// Narrows the range of memory that belongs to no context down to what is mapped there: the range of what cuMemMap has
// mapped is all that cuMemAddressReserve reserved, of which other parts may be unmapped, or another device's. A mapping
// may also be larger than the range, as that of a pool. Drivers that do not tell mappings leave the range as it is.
void narrow_to_mapping(const Driver& driver, const void* address, Attributes& found) {
    CUdeviceptr begin = 0;
    std::size_t size = 0;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_MAPPING_SIZE};
    void* values[] = {&begin, &size};
    if (driver.pointer_get_attributes(2, names, values, pointer(address)) != CUDA_SUCCESS || size == 0)
        return;
    const CUdeviceptr end = std::min(begin + size, found.begin + found.size);
    found.begin = std::max(begin, found.begin);
    found.size = end - found.begin;
}

Kind kind_of(const Attributes& found) {
    if (found.managed != 0 || found.type == CU_MEMORYTYPE_UNIFIED)
        return Kind::kManaged;  // its memory type is the host's where its pages are preferred there
    switch (found.type) {
        case CU_MEMORYTYPE_HOST:
            return Kind::kPinned;
        case CU_MEMORYTYPE_DEVICE:
        case CU_MEMORYTYPE_ARRAY:
            return Kind::kDevice;
        default:
            return Kind::kHost;
    }
}

// The devices on which the program has a context: that of the memory's own context first, then the calling thread's,
// then all others.
std::vector<int> ordinals_in_use(const Driver& driver, Context owner) {
    std::vector<int> ordinals;
    const auto add = [&](int ordinal) {
        if (ordinal >= 0 && std::find(ordinals.begin(), ordinals.end(), ordinal) == ordinals.end())
            ordinals.push_back(ordinal);
    };
    if (owner != nullptr)
        add(ordinal_of(driver, owner));
    add(ordinal_of(driver, nullptr));
    for (int ordinal = 0; ordinal < device_count(); ++ordinal)
        if (primary_context(driver, ordinal) != nullptr)
            add(ordinal);
    return ordinals.empty() ? std::vector<int>{0} : ordinals;
}

// Tells whether the program has told CUDA that this managed memory is to stay on the host (cuMemAdvise).
bool prefers_host(const Driver& driver, const void* address) {
    int device = CU_DEVICE_INVALID;
    return driver.memory_range_get_attribute != nullptr &&
           driver.memory_range_get_attribute(&device, sizeof device, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                             pointer(address), 1) == CUDA_SUCCESS &&
           device == CU_DEVICE_CPU;
}

// Managed memory whose preferred location is the host belongs to no device. One device is needed for the streams that
// move it: this chooses the one nearest to the memory's NUMA node, since the bytes go through host memory.
void choose_nearest(const Driver& driver, const void* address, Location& location) {
    const std::vector<int> ordinals = ordinals_in_use(driver, location.context);
    const std::size_t nearest = nearest_device(address, ordinals);
    location.any_device = location.kind == Kind::kManaged;
    if (location.any_device && ordinals.size() > 1)
        any_device_moves.store(true, std::memory_order_relaxed);
    location.ordinal = ordinals[nearest];
    if (location.context != nullptr && ordinal_of(driver, location.context) != location.ordinal)
        location.context = nullptr;
}

// Chooses the context of memory that belongs to a device and to no context, as made by cuMemCreate and cuMemAllocAsync.
void choose_context(const Driver& driver, Location& location) {
    if (location.context != nullptr) {
        location.primary = is_primary(driver, location.context, location.ordinal);
        return;
    }
    location.context = primary_context(driver, location.ordinal);
    if (location.context != nullptr)
        return;
    CUcontext current = nullptr;
    if (driver.context_get_current(&current) == CUDA_SUCCESS && current != nullptr &&
        ordinal_of(driver, nullptr) == location.ordinal) {
        location.context = current;
        location.primary = false;
    }
}

// cudaMemcpy and cudaMemset may return before they are over ("API synchronization behavior" in CUDA's manuals), and the
// streams here do not wait for them. This has the driver make them wait on this memory from now on; it returns when
// those made before are over. Of memory that belongs to no context, that of pools and of cuMemCreate, drivers refuse it
// or accept it without effect (580 does so for pools).
void settle_memops(const Driver& driver, const Location& location, bool has_context) {
    if (memops_may_stay.load(std::memory_order_relaxed))
        return;
    const unsigned yes = 1;
    const ContextScope scope(location.context);
    const bool settled =
        has_context && driver.pointer_set_attribute != nullptr && scope.result() == CUDA_SUCCESS &&
        driver.pointer_set_attribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, location.begin) == CUDA_SUCCESS;
    if (!settled)
        memops_may_stay.store(true, std::memory_order_relaxed);
}

}  // namespace

static_assert(kMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && kInvalidValue == CUDA_ERROR_INVALID_VALUE);

bool is_device_answer(int result, unsigned type, const void* address) {
    const Driver* d = driver();
    if (d == nullptr || address == nullptr)
        return false;
    if (result == CUDA_ERROR_NOT_INITIALIZED) [[likely]]
        return false;
    if (result != CUDA_SUCCESS)
        return unanswered_is_device(static_cast<CUresult>(result), address);
    if (type != CU_MEMORYTYPE_HOST)
        return type != 0;
    unsigned managed = 0;
    return d->pointer_get_attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer(address)) == CUDA_SUCCESS &&
           managed != 0;
}

Location locate(const void* address) {
    Location location;
    const Driver* d = driver();
    if (d == nullptr || address == nullptr)
        return location;
    Attributes found;
    const CUresult result = query(*d, address, found);
    if (result != CUDA_SUCCESS && !unanswered_is_device(result, address))
        return location;
    // The program's context is unusable, but memory that is known to be a device's must not count as the host's.
    location.kind = result == CUDA_SUCCESS ? kind_of(found) : Kind::kDevice;
    if (location.kind == Kind::kHost)
        return location;
    if (found.context == nullptr && location.kind == Kind::kDevice)
        narrow_to_mapping(*d, address, found);
    location.begin = found.begin;
    location.end = found.begin + found.size;
    if (!location.on_device())
        return location;
    location.context = found.context;
    location.ordinal = found.ordinal;
    const bool at_home_on_host = location.kind == Kind::kManaged && device_count() > 1 && prefers_host(*d, address);
    if (location.ordinal < 0 || at_home_on_host)
        choose_nearest(*d, address, location);
    choose_context(*d, location);
    const bool has_context = found.context != nullptr;
    if (settings::values().sync == settings::Sync::kMemops && (found.sync_memops == 0 || !has_context))
        settle_memops(*d, location, has_context);
    return location;
}

}  // namespace swy::device
