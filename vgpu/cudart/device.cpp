// Devices: which there are, which is current, their numbers and names, limits and peers.
#include "vgpu/cudart/runtime.hpp"

// cudaProfiler.h declares these, but the runtime's header wheels come without it.
extern "C" {
CUresult cuProfilerStart();
CUresult cuProfilerStop();
}

using namespace vgpu::cudart;

namespace {

// cudaDeviceMapHost is implied for every context of the runtime; the driver does not take it.
constexpr unsigned kDriverFlags = cudaDeviceMask & ~cudaDeviceMapHost;

cudaError_t set_primary_flags(int device, unsigned flags) {
    const unsigned schedule = flags & cudaDeviceScheduleMask;
    const bool one_schedule = (schedule & (schedule - 1)) == 0;
    if ((flags & ~static_cast<unsigned>(cudaDeviceMask)) != 0 || !one_schedule)
        return cudaErrorInvalidValue;
    return runtime_error(cuDevicePrimaryCtxSetFlags(device, flags & kDriverFlags));
}

// Runs a query that takes a device ordinal, after the check that the runtime makes: the driver's own error for a bad
// ordinal is the same.
template <class Query>
cudaError_t on_device(const char* function, const void* answer, int device, Query&& query) {
    return api(function, Needs::kDriver, [&]() -> cudaError_t {
        if (answer == nullptr)
            return cudaErrorInvalidValue;
        const cudaError_t valid = check_device(device);
        return valid != cudaSuccess ? valid : runtime_error(query());
    });
}

}  // namespace

VGPU_CUDART_API cudaError_t cudaGetDeviceCount(int* count) {
    return api("cudaGetDeviceCount", Needs::kDriver, [&]() -> cudaError_t {
        if (count == nullptr)
            return cudaErrorInvalidValue;
        const CUresult result = cuDeviceGetCount(count);
        return result == CUDA_SUCCESS && *count == 0 ? cudaErrorNoDevice : runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaGetDevice(int* device) {
    return api("cudaGetDevice", Needs::kDriver,
               [&] { return device == nullptr ? cudaErrorInvalidValue : current_device(*device); });
}

VGPU_CUDART_API cudaError_t cudaSetDevice(int device) {
    return api("cudaSetDevice", Needs::kDriver, [&] { return choose_device(device); });
}

VGPU_CUDART_API cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    return api("cudaInitDevice", Needs::kDriver, [&]() -> cudaError_t {
        if (const cudaError_t valid = check_device(device); valid != cudaSuccess)
            return valid;
        if ((flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) != 0)
            return cudaErrorInvalidValue;
        if ((flags & cudaInitDeviceFlagsAreValid) != 0)
            if (const cudaError_t result = set_primary_flags(device, device_flags); result != cudaSuccess)
                return result;
        CUcontext context = nullptr;
        return primary_context(device, context);
    });
}

VGPU_CUDART_API cudaError_t cudaSetDeviceFlags(unsigned flags) {
    return api("cudaSetDeviceFlags", Needs::kDriver, [&] {
        int device = 0;
        cudaError_t result = current_device(device);
        if (result == cudaSuccess)
            result = set_primary_flags(device, flags);
        CUcontext context = nullptr;  // the device is initialised with the flags, since CUDA 12
        return result == cudaSuccess ? primary_context(device, context) : result;
    });
}

VGPU_CUDART_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
    return api("cudaGetDeviceFlags", Needs::kDriver, [&]() -> cudaError_t {
        if (flags == nullptr)
            return cudaErrorInvalidValue;
        CUcontext current = nullptr;
        if (const CUresult result = cuCtxGetCurrent(&current); result != CUDA_SUCCESS)
            return runtime_error(result);
        int device = 0;
        if (const cudaError_t result = current_device(device); result != cudaSuccess)
            return result;
        int active = 0;
        if (const CUresult result = cuDevicePrimaryCtxGetState(device, flags, &active); result != CUDA_SUCCESS)
            return runtime_error(result);
        CUcontext primary = nullptr;
        if (current != nullptr &&
            (active == 0 || primary_context(device, primary) != cudaSuccess || primary != current))
            return runtime_error(cuCtxGetFlags(flags));  // a context of the driver API: its own flags, nothing implied
        *flags |= cudaDeviceMapHost;
        return cudaSuccess;
    });
}

VGPU_CUDART_API cudaError_t cudaDeviceReset() {
    return api("cudaDeviceReset", Needs::kDriver, [] { return reset_device(); });
}

VGPU_CUDART_API cudaError_t cudaDeviceSynchronize() {
    return api("cudaDeviceSynchronize", Needs::kContext, [] { return cuCtxSynchronize(); });
}

// The two enumerations of attributes share their numbers.
VGPU_CUDART_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    return on_device("cudaDeviceGetAttribute", value, device,
                     [&] { return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device); });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
    return on_device("cudaDeviceGetPCIBusId", text, device, [&] { return cuDeviceGetPCIBusId(text, length, device); });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
    return api("cudaDeviceGetByPCIBusId", Needs::kDriver, [&]() -> cudaError_t {
        if (device == nullptr || text == nullptr)
            return cudaErrorInvalidValue;
        CUdevice handle = 0;
        const CUresult result = cuDeviceGetByPCIBusId(&handle, text);
        if (result == CUDA_SUCCESS)
            *device = handle;
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    return on_device("cudaDeviceCanAccessPeer", can, device, [&] { return cuDeviceCanAccessPeer(can, device, peer); });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device, int peer) {
    return on_device("cudaDeviceGetP2PAttribute", value, device, [&] {
        return cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute), device, peer);
    });
}

VGPU_CUDART_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    return api("cudaDeviceEnablePeerAccess", Needs::kContext, [&]() -> cudaError_t {
        if (const cudaError_t valid = check_device(peer); valid != cudaSuccess)
            return valid;
        CUcontext context = nullptr;
        const cudaError_t result = primary_context(peer, context);
        return result != cudaSuccess ? result : runtime_error(cuCtxEnablePeerAccess(context, flags));
    });
}

VGPU_CUDART_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    return api("cudaDeviceDisablePeerAccess", Needs::kContext, [&]() -> cudaError_t {
        if (const cudaError_t valid = check_device(peer); valid != cudaSuccess)
            return valid;
        CUcontext context = nullptr;
        const cudaError_t result = primary_context(peer, context);
        return result != cudaSuccess ? result : runtime_error(cuCtxDisablePeerAccess(context));
    });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    return api("cudaDeviceGetLimit", Needs::kContext,
               [&] { return cuCtxGetLimit(value, static_cast<CUlimit>(limit)); });
}

VGPU_CUDART_API cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    return api("cudaDeviceSetLimit", Needs::kContext,
               [&] { return cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
    return api("cudaDeviceGetCacheConfig", Needs::kContext,
               [&] { return cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(config)); });
}

VGPU_CUDART_API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
    return api("cudaDeviceSetCacheConfig", Needs::kContext,
               [&] { return cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config)); });
}

VGPU_CUDART_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return api("cudaDeviceGetStreamPriorityRange", Needs::kContext,
               [&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

VGPU_CUDART_API cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
    return api("cudaMemGetInfo", Needs::kContext, [&] { return cuMemGetInfo(available, total); });
}

VGPU_CUDART_API cudaError_t cudaDriverGetVersion(int* version) {
    return api("cudaDriverGetVersion", Needs::kNothing,
               [&] { return version == nullptr ? CUDA_ERROR_INVALID_VALUE : cuDriverGetVersion(version); });
}

VGPU_CUDART_API cudaError_t cudaProfilerStart() {
    return api("cudaProfilerStart", Needs::kContext, [] { return cuProfilerStart(); });
}

VGPU_CUDART_API cudaError_t cudaProfilerStop() {
    return api("cudaProfilerStop", Needs::kContext, [] { return cuProfilerStop(); });
}
