#include <fmt/format.h>

#include <array>
#include <cstring>

#include "device/call_scope.hpp"
#include "device/driver.hpp"

namespace swy::device {
namespace {

// The handles of primary contexts by ordinal: a primary context keeps its handle as long as the process lives, however
// often it is reset.
constexpr int kRemembered = 64;
std::array<std::atomic<Context>, kRemembered> primary_handles{};

bool remembers(int ordinal) {
    return ordinal >= 0 && ordinal < kRemembered;
}

bool primary_is_active(const Driver& driver, CUdevice device) {
    unsigned flags = 0;
    int active = 0;
    return driver.primary_get_state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

}  // namespace

Context primary_context(const Driver& driver, int ordinal) {
    CUdevice device = 0;
    if (driver.device_get(&device, ordinal) != CUDA_SUCCESS || !primary_is_active(driver, device))
        return nullptr;
    if (remembers(ordinal))
        if (const Context known = primary_handles[ordinal].load(std::memory_order_relaxed); known != nullptr)
            return known;
    // This is the only way to learn the handle. Retaining an active context makes nothing and is undone at once.
    CUcontext context = nullptr;
    if (driver.primary_retain(&context, device) != CUDA_SUCCESS)
        return nullptr;
    driver.primary_release(device);
    if (remembers(ordinal))
        primary_handles[ordinal].store(context, std::memory_order_relaxed);
    return context;
}

bool is_primary(const Driver& driver, Context context, int ordinal) {
    const Context known = remembers(ordinal) ? primary_handles[ordinal].load(std::memory_order_relaxed) : nullptr;
    return context == (known != nullptr ? known : primary_context(driver, ordinal));
}

int ordinal_of(const Driver& driver, Context context) {
    CUdevice device = -1;
    if (context == nullptr)
        return driver.context_get_device(&device) == CUDA_SUCCESS ? device : -1;
    const ContextScope scope(context);
    return scope.result() == 0 && driver.context_get_device(&device) == CUDA_SUCCESS ? device : -1;
}

ContextScope::ContextScope(Context context) : result_(CUDA_ERROR_NOT_INITIALIZED) {
    const Driver* d = driver();
    if (d == nullptr)
        return;
    if (calls_in_scope.context == nullptr && d->exchange_capture_mode != nullptr) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        relaxed_ = d->exchange_capture_mode(&mode) == CUDA_SUCCESS;
        capture_mode_ = mode;
    }
    if (context != nullptr && context == calls_in_scope.context && calls_in_scope.others == 0) {
        result_ = CUDA_SUCCESS;  // it is current already
        return;
    }
    result_ = context != nullptr ? d->context_push(context) : CUDA_ERROR_INVALID_CONTEXT;
    pushed_ = result_ == CUDA_SUCCESS;
    if (pushed_ && calls_in_scope.context != nullptr)
        ++calls_in_scope.others;
}

ContextScope::~ContextScope() {
    CUcontext ignored = nullptr;
    if (pushed_ && calls_in_scope.context != nullptr)
        --calls_in_scope.others;
    const Driver* d = driver();
    if (d != nullptr && pushed_)
        d->context_pop(&ignored);
    if (d != nullptr && relaxed_) {
        auto mode = static_cast<CUstreamCaptureMode>(capture_mode_);
        d->exchange_capture_mode(&mode);
    }
}

constinit thread_local CallsInScope calls_in_scope;

CallScope::CallScope(Context context) {
    const Driver* d = driver();
    if (d == nullptr || context == nullptr || calls_in_scope.context != nullptr ||
        d->context_push(context) != CUDA_SUCCESS)
        return;
    calls_in_scope = {};
    calls_in_scope.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (d->exchange_capture_mode != nullptr)
        d->exchange_capture_mode(&calls_in_scope.mode);
    calls_in_scope.context = context;
    entered_ = true;
}

CallScope::~CallScope() {
    if (!entered_)
        return;
    calls_in_scope.context = nullptr;
    const Driver* d = driver();
    if (d == nullptr)
        return;
    CUcontext ignored = nullptr;
    if (d->exchange_capture_mode != nullptr)
        d->exchange_capture_mode(&calls_in_scope.mode);
    d->context_pop(&ignored);
}

Location current_device() {
    Location location;
    const Driver* d = driver();
    if (d == nullptr)
        return location;
    const int ordinal = ordinal_of(*d, nullptr);
    location.context = ordinal < 0 ? nullptr : primary_context(*d, ordinal);
    location.ordinal = location.context == nullptr ? -1 : ordinal;
    return location;
}

int device_count() {
    const Driver* d = driver();
    int count = 0;
    return d != nullptr && d->device_get_count(&count) == CUDA_SUCCESS ? count : 0;
}

std::string device_name(int ordinal) {
    const Driver* d = driver();
    CUdevice device = 0;
    std::array<char, 256> name{};
    if (d == nullptr || d->device_get(&device, ordinal) != CUDA_SUCCESS ||
        d->device_get_name(name.data(), name.size() - 1, device) != CUDA_SUCCESS)
        return {};
    return name.data();
}

std::string in_words(int ordinal) {
    Identity id;
    if (ordinal < 0 || !identify(ordinal, id))
        return {};
    return fmt::format("{} ({:08x}:{:02x}:{:02x}.0)", device_name(ordinal), id.pci_domain, id.pci_bus, id.pci_device);
}

int compute_capability(int ordinal) {
    const Driver* d = driver();
    CUdevice device = 0;
    int major = 0, minor = 0;
    if (d == nullptr || d->device_get(&device, ordinal) != CUDA_SUCCESS ||
        d->device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
        d->device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
        return 0;
    return 10 * major + minor;
}

int multiprocessors(int ordinal) {
    const Driver* d = driver();
    CUdevice device = 0;
    int count = 0;
    return d != nullptr && d->device_get(&device, ordinal) == CUDA_SUCCESS &&
                   d->device_get_attribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) == CUDA_SUCCESS
               ? count
               : 0;
}

bool may_be_linked(int ordinal, const std::array<std::uint8_t, 16>& other) {
    const Driver* d = driver();
    if (d == nullptr || d->device_get_p2p_attribute == nullptr)
        return true;
    for (int i = 0; i < device_count(); ++i) {
        Identity identity;
        CUdevice here = 0, there = 0;
        int atomics = 1;
        if (!identify(i, identity) || identity.uuid != other)
            continue;
        return d->device_get(&here, ordinal) != CUDA_SUCCESS || d->device_get(&there, i) != CUDA_SUCCESS ||
               d->device_get_p2p_attribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, here, there) !=
                   CUDA_SUCCESS ||
               atomics != 0;
    }
    return true;
}

bool identify(int ordinal, Identity& identity) {
    const Driver* d = driver();
    CUdevice device = 0;
    if (d == nullptr || d->device_get(&device, ordinal) != CUDA_SUCCESS)
        return false;
    CUuuid uuid{};
    const auto ask = d->device_get_uuid != nullptr ? d->device_get_uuid : d->device_get_uuid_of_gpu;
    if (ask(&uuid, device) != CUDA_SUCCESS)
        return false;
    int domain = 0;
    int bus = 0;
    int slot = 0;
    if (d->device_get_attribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device) != CUDA_SUCCESS ||
        d->device_get_attribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device) != CUDA_SUCCESS ||
        d->device_get_attribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device) != CUDA_SUCCESS)
        return false;
    static_assert(sizeof(uuid.bytes) == std::tuple_size_v<decltype(identity.uuid)>);
    std::memcpy(identity.uuid.data(), uuid.bytes, sizeof(uuid.bytes));
    identity.pci_domain = domain;
    identity.pci_bus = bus;
    identity.pci_device = slot;
    return true;
}

}  // namespace swy::device
