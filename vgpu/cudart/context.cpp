#include "vgpu/cudart/context.hpp"

#include <atomic>
#include <map>
#include <mutex>

#include "vgpu/cudart/program.hpp"
#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

namespace {

// The primary contexts that the runtime holds. `former` keeps the handles of contexts that cudaDeviceReset ended:
// another thread may still have one current, and its next call has to come back to the device's new primary context
// instead of failing.
struct Primaries {
    std::mutex mutex;
    std::map<int, CUcontext> live;
    std::map<CUcontext, int> former;
};

// Never destroyed: programs call the runtime from their own exit handlers.
Primaries& primaries() {
    static auto* all = new Primaries;
    return *all;
}

thread_local int chosen_device = 0;
// The context that this thread last found usable, with the reset count at that time, so that most calls cost a
// comparison and no look-up.
thread_local CUcontext checked_context = nullptr;
thread_local unsigned checked_epoch = 0;
std::atomic<unsigned> reset_epoch{1};

cudaError_t retain_locked(Primaries& all, int device, CUcontext& context) {
    if (const auto found = all.live.find(device); found != all.live.end()) {
        context = found->second;
        return cudaSuccess;
    }
    CUdevice handle = 0;
    if (const CUresult result = cuDeviceGet(&handle, device); result != CUDA_SUCCESS)
        return runtime_error(result);
    if (const CUresult result = cuDevicePrimaryCtxRetain(&context, handle); result != CUDA_SUCCESS)
        return runtime_error(result);
    all.live[device] = context;
    all.former.erase(context);
    return cudaSuccess;
}

cudaError_t make_current(int device) {
    CUcontext context = nullptr;
    if (const cudaError_t result = primary_context(device, context); result != cudaSuccess)
        return result;
    return runtime_error(cuCtxSetCurrent(context));
}

// The device whose former primary context this is, or -1.
int former_primary(CUcontext context) {
    Primaries& all = primaries();
    const std::lock_guard lock(all.mutex);
    const auto found = all.former.find(context);
    return found == all.former.end() ? -1 : found->second;
}

}  // namespace

cudaError_t ensure_driver() {
    static std::atomic<bool> ready{false};
    if (ready.load(std::memory_order_acquire))
        return cudaSuccess;
    int version = 0;
    if (cuDriverGetVersion(&version) == CUDA_SUCCESS && version < oldest_driver())
        return cudaErrorInsufficientDriver;
    const CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        ready.store(true, std::memory_order_release);
    return runtime_error(result);
}

cudaError_t ensure_context() {
    if (const cudaError_t result = ensure_driver(); result != cudaSuccess)
        return result;
    CUcontext current = nullptr;
    if (const CUresult result = cuCtxGetCurrent(&current); result != CUDA_SUCCESS)
        return runtime_error(result);
    const unsigned epoch = reset_epoch.load(std::memory_order_acquire);
    if (current != nullptr && current == checked_context && epoch == checked_epoch)
        return cudaSuccess;
    if (current == nullptr) {
        if (const cudaError_t result = make_current(chosen_device); result != cudaSuccess)
            return result;
    } else if (const int device = former_primary(current); device >= 0) {
        if (const cudaError_t result = make_current(device); result != cudaSuccess)
            return result;
    }
    cuCtxGetCurrent(&checked_context);
    checked_epoch = epoch;
    return cudaSuccess;
}

bool was_reset() {
    CUcontext current = nullptr;
    return checked_context != nullptr && checked_epoch != reset_epoch.load(std::memory_order_acquire) &&
           cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == checked_context;
}

cudaError_t current_device(int& device) {
    CUcontext current = nullptr;
    if (const CUresult result = cuCtxGetCurrent(&current); result != CUDA_SUCCESS)
        return runtime_error(result);
    CUdevice handle = 0;
    device = chosen_device;
    if (current == nullptr)
        return cudaSuccess;
    if (const int former = former_primary(current); former >= 0) {
        device = former;
        return cudaSuccess;
    }
    const CUresult result = cuCtxGetDevice(&handle);
    if (result == CUDA_SUCCESS)
        device = handle;  // the driver's device handles are its ordinals
    return runtime_error(result);
}

cudaError_t primary_context(int device, CUcontext& context) {
    Primaries& all = primaries();
    const std::lock_guard lock(all.mutex);
    return retain_locked(all, device, context);
}

cudaError_t check_device(int device) {
    int count = 0;
    if (const CUresult result = cuDeviceGetCount(&count); result != CUDA_SUCCESS)
        return runtime_error(result);
    return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t choose_device(int device) {
    if (const cudaError_t result = check_device(device); result != cudaSuccess)
        return result;
    chosen_device = device;
    return make_current(device);  // since CUDA 12.0 cudaSetDevice initialises the device
}

cudaError_t reset_device() {
    int device = 0;
    if (const cudaError_t result = current_device(device); result != cudaSuccess)
        return result;
    chosen_device = device;
    CUdevice handle = 0;
    if (const CUresult result = cuDeviceGet(&handle, device); result != CUDA_SUCCESS)
        return runtime_error(result);
    {
        Primaries& all = primaries();
        const std::lock_guard lock(all.mutex);
        if (const CUresult result = cuDevicePrimaryCtxReset(handle); result != CUDA_SUCCESS)
            return runtime_error(result);
        if (const auto held = all.live.find(device); held != all.live.end()) {
            CUcontext current = nullptr;
            if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == held->second)
                cuCtxSetCurrent(nullptr);
            all.former[held->second] = device;
            all.live.erase(held);
            cuDevicePrimaryCtxRelease(handle);
        }
        reset_epoch.fetch_add(1, std::memory_order_acq_rel);
    }
    forget_device(device);
    return cudaSuccess;
}

}  // namespace vgpu::cudart
