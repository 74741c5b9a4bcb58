// The functions whose binary interface is CUDA 13's own. libcudart.so.13 has this file, libcudart.so.12 has abi12.cpp.
#include "vgpu/cudart/allocation.hpp"
#include "vgpu/cudart/entry_point.hpp"
#include "vgpu/cudart/properties.hpp"
#include "vgpu/cudart/stream.hpp"

using namespace vgpu::cudart;

VGPU_CUDART_API cudaError_t cudaRuntimeGetVersion(int* version) {
    return api("cudaRuntimeGetVersion", Needs::kNothing, [&]() -> cudaError_t {
        if (version == nullptr)
            return cudaErrorInvalidValue;
        *version = CUDART_VERSION;
        return cudaSuccess;
    });
}

VGPU_CUDART_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    return api("cudaGetDeviceProperties", Needs::kDriver, [&]() -> cudaError_t {
        if (properties == nullptr)
            return cudaErrorInvalidValue;
        const cudaError_t result = fill_common(*properties, device);
        if (result != cudaSuccess)
            return result;
        const AttributeReader read(device);
        fill_newer(*properties, read);
        read(properties->deviceNumaConfig, cudaDevAttrNumaConfig);
        read(properties->deviceNumaId, cudaDevAttrNumaId);
        read(properties->mpsEnabled, cudaDevAttrMpsEnabled);
        read(properties->hostNumaId, cudaDevAttrHostNumaId);
        read(properties->gpuPciDeviceID, cudaDevAttrGpuPciDeviceId);
        read(properties->gpuPciSubsystemID, cudaDevAttrGpuPciSubsystemId);
        read(properties->hostNumaMultinodeIpcSupported, cudaDevAttrHostNumaMultinodeIpcSupported);
        return cudaSuccess;
    });
}

VGPU_CUDART_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    return api("cudaPointerGetAttributes", Needs::kContext, [&]() -> cudaError_t {
        if (attributes == nullptr)
            return cudaErrorInvalidValue;
        PointerFacts facts;
        const cudaError_t result = find_pointer(facts, pointer);
        if (result == cudaSuccess)
            *attributes = {facts.type, facts.device, facts.device_pointer, facts.host_pointer, {}};
        return result;
    });
}

VGPU_CUDART_API cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location,
                                                 unsigned flags, cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, stream);
}

VGPU_CUDART_API cudaError_t cudaMemPrefetchAsync_ptsz(const void* pointer, size_t bytes, cudaMemLocation location,
                                                      unsigned flags, cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, per_thread(stream));
}

VGPU_CUDART_API cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                                          cudaMemLocation location) {
    return advise(pointer, bytes, advice, location);
}

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPoint", symbol, function, CUDART_VERSION, flags, status);
}

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                                         cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPoint", symbol, function, CUDART_VERSION, per_thread_flags(flags),
                              status);
}

VGPU_CUDART_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                                     const cudaGraphEdgeData**, size_t*) {
    return capture_status("cudaStreamGetCaptureInfo", stream, status);
}

VGPU_CUDART_API cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                          unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                                          const cudaGraphEdgeData**, size_t*) {
    return capture_status("cudaStreamGetCaptureInfo", per_thread(stream), status);
}
