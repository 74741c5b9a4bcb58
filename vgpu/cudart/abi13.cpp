// The functions whose binary interface is CUDA 13's own. libcudart.so.13 has this file, libcudart.so.12 has abi12.cpp.
// It is the same whichever CUDA's headers are at hand.
#include <cstddef>

#include "vgpu/cudart/allocation.hpp"
#include "vgpu/cudart/context.hpp"
#include "vgpu/cudart/copy.hpp"
#include "vgpu/cudart/entry_point.hpp"
#include "vgpu/cudart/properties.hpp"
#include "vgpu/cudart/stream.hpp"

using namespace vgpu::cudart;

namespace {

// cudaDeviceProp as CUDA 13 lays it out.
struct Properties13 {
    char name[256];
    cudaUUID_t uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int multiProcessorCount, integrated, canMapHostMemory;
    int texture_limits[39];  // maxTexture1D ... maxSurfaceCubemapLayered: arrays, which virtual GPUs do not have
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount,
        unifiedAddressing;
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
    int canUseHostPointerForRegisteredMem, cooperativeLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported,
        timelineSemaphoreInteropSupported;
    int memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
    int deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;
    unsigned gpuPciDeviceID, gpuPciSubsystemID;
    int hostNumaMultinodeIpcSupported;
    int reserved[56];
};

struct PointerAttributes13 {
    cudaMemoryType type;
    int device;
    void* devicePointer;
    void* hostPointer;
    long reserved[8];
};

#if CUDART_VERSION >= 13000
static_assert(sizeof(Properties13) == sizeof(cudaDeviceProp));
static_assert(offsetof(Properties13, surfaceAlignment) == offsetof(cudaDeviceProp, surfaceAlignment));
static_assert(offsetof(Properties13, hostRegisterSupported) == offsetof(cudaDeviceProp, hostRegisterSupported));
static_assert(offsetof(Properties13, hostNumaMultinodeIpcSupported) ==
              offsetof(cudaDeviceProp, hostNumaMultinodeIpcSupported));
static_assert(sizeof(PointerAttributes13) == sizeof(cudaPointerAttributes));
#endif

}  // namespace

int vgpu::cudart::oldest_driver() {
    return 13000;
}

extern "C" {

cudaError_t runtime_version_13(int* version) VGPU_CUDART_SYMBOL(cudaRuntimeGetVersion);
cudaError_t runtime_version_13(int* version) {
    return api("cudaRuntimeGetVersion", Needs::kNothing, [&]() -> cudaError_t {
        if (version == nullptr)
            return cudaErrorInvalidValue;
        *version = vgpu::kCudaVersion;
        return cudaSuccess;
    });
}

cudaError_t properties_13(Properties13* properties, int device) VGPU_CUDART_SYMBOL(cudaGetDeviceProperties);
cudaError_t properties_13(Properties13* properties, int device) {
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

cudaError_t pointer_attributes_13(PointerAttributes13* attributes, const void* pointer)
    VGPU_CUDART_SYMBOL(cudaPointerGetAttributes);
cudaError_t pointer_attributes_13(PointerAttributes13* attributes, const void* pointer) {
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

cudaError_t prefetch_13(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
                        cudaStream_t stream) VGPU_CUDART_SYMBOL(cudaMemPrefetchAsync);
cudaError_t prefetch_13(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
                        cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, stream);
}

cudaError_t prefetch_13_ptsz(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
                             cudaStream_t stream) VGPU_CUDART_SYMBOL(cudaMemPrefetchAsync_ptsz);
cudaError_t prefetch_13_ptsz(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
                             cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, per_thread(stream));
}

cudaError_t advise_13(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location)
    VGPU_CUDART_SYMBOL(cudaMemAdvise);
cudaError_t advise_13(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
    return advise(pointer, bytes, advice, location);
}

cudaError_t capture_info_13(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*, cudaGraph_t*,
                            const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*)
    VGPU_CUDART_SYMBOL(cudaStreamGetCaptureInfo);
cudaError_t capture_info_13(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                            cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                            size_t* count) {
    return capture_info(stream, status, id, graph, nodes, edges, count);
}

cudaError_t capture_info_13_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*,
                                 cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*)
    VGPU_CUDART_SYMBOL(cudaStreamGetCaptureInfo_ptsz);
cudaError_t capture_info_13_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                 cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                 size_t* count) {
    return capture_info(per_thread(stream), status, id, graph, nodes, edges, count);
}

cudaError_t update_13(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges, size_t count,
                      unsigned flags) VGPU_CUDART_SYMBOL(cudaStreamUpdateCaptureDependencies);
cudaError_t update_13(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges, size_t count,
                      unsigned flags) {
    return update_dependencies(stream, nodes, edges, count, flags);
}

cudaError_t update_13_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges, size_t count,
                           unsigned flags) VGPU_CUDART_SYMBOL(cudaStreamUpdateCaptureDependencies_ptsz);
cudaError_t update_13_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges, size_t count,
                           unsigned flags) {
    return update_dependencies(per_thread(stream), nodes, edges, count, flags);
}

cudaError_t copy_batch_13(void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes,
                          size_t* starts, size_t attributes_count, cudaStream_t stream)
    VGPU_CUDART_SYMBOL(cudaMemcpyBatchAsync);
cudaError_t copy_batch_13(void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes,
                          size_t* starts, size_t attributes_count, cudaStream_t stream) {
    return copy_batch(to, from, bytes, count, attributes, starts, attributes_count, stream);
}

cudaError_t copy_batch_13_ptsz(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                               void* attributes, size_t* starts, size_t attributes_count, cudaStream_t stream)
    VGPU_CUDART_SYMBOL(cudaMemcpyBatchAsync_ptsz);
cudaError_t copy_batch_13_ptsz(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                               void* attributes, size_t* starts, size_t attributes_count, cudaStream_t stream) {
    return copy_batch(to, from, bytes, count, attributes, starts, attributes_count, per_thread(stream));
}

}  // extern "C"

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPoint", symbol, function, vgpu::kCudaVersion, flags, status);
}

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                                         cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPoint", symbol, function, vgpu::kCudaVersion, per_thread_flags(flags),
                              status);
}
