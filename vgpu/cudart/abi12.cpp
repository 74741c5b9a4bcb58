// The functions whose binary interface is CUDA 12's own, with 12.9 as the version they speak for. libcudart.so.12 has
// this file, libcudart.so.13 has abi13.cpp. It is the same whichever CUDA's headers are at hand.
#include <cstddef>

#include "vgpu/cudart/allocation.hpp"
#include "vgpu/cudart/context.hpp"
#include "vgpu/cudart/copy.hpp"
#include "vgpu/cudart/entry_point.hpp"
#include "vgpu/cudart/properties.hpp"
#include "vgpu/cudart/stream.hpp"

using namespace vgpu::cudart;

namespace {

constexpr int kVersion = 12090;

// cudaDeviceProp as CUDA 12 lays it out. CUDA 11's is its beginning, up to and with reservedSharedMemPerBlock.
struct Properties12 {
    char name[256];
    cudaUUID_t uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int texture_limits[40];  // maxTexture1D ... maxSurfaceCubemapLayered: arrays, which virtual GPUs do not have
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount,
        unifiedAddressing;
    int memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
    int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
    int canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
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
    int reserved[63];
};

struct PointerAttributes12 {
    cudaMemoryType type;
    int device;
    void* devicePointer;
    void* hostPointer;
};

#if CUDART_VERSION < 13000
static_assert(sizeof(Properties12) == sizeof(cudaDeviceProp));
static_assert(offsetof(Properties12, unifiedFunctionPointers) == offsetof(cudaDeviceProp, unifiedFunctionPointers));
static_assert(sizeof(PointerAttributes12) == sizeof(cudaPointerAttributes));
#endif

constexpr size_t kBytesOf11 = offsetof(Properties12, reservedSharedMemPerBlock) + sizeof(size_t);

cudaError_t fill12(Properties12& to, int device) {
    if (const cudaError_t result = fill_common(to, device); result != cudaSuccess)
        return result;
    const AttributeReader read(device);
    fill_newer(to, read);
    read(to.clockRate, cudaDevAttrClockRate);
    read(to.deviceOverlap, cudaDevAttrGpuOverlap);
    read(to.kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout);
    read(to.computeMode, cudaDevAttrComputeMode);
    read(to.memoryClockRate, cudaDevAttrMemoryClockRate);
    read(to.singleToDoublePrecisionPerfRatio, cudaDevAttrSingleToDoublePrecisionPerfRatio);
    return cudaSuccess;
}

cudaMemLocation location_of(int device) {
    return device == cudaCpuDeviceId ? cudaMemLocation{cudaMemLocationTypeHost, 0}
                                     : cudaMemLocation{cudaMemLocationTypeDevice, device};
}

}  // namespace

int vgpu::cudart::oldest_driver() {
    return 12000;
}

extern "C" {

cudaError_t runtime_version_12(int* version) VGPU_CUDART_SYMBOL(cudaRuntimeGetVersion);
cudaError_t runtime_version_12(int* version) {
    return api("cudaRuntimeGetVersion", Needs::kNothing, [&]() -> cudaError_t {
        if (version == nullptr)
            return cudaErrorInvalidValue;
        *version = kVersion;
        return cudaSuccess;
    });
}

// CUDA 12's header turns cudaGetDeviceProperties into _v2; the bare name keeps CUDA 11's shorter structure.
cudaError_t properties_11(void* properties, int device) VGPU_CUDART_SYMBOL(cudaGetDeviceProperties);
cudaError_t properties_11(void* properties, int device) {
    return api("cudaGetDeviceProperties", Needs::kDriver, [&]() -> cudaError_t {
        if (properties == nullptr)
            return cudaErrorInvalidValue;
        Properties12 full;
        const cudaError_t result = fill12(full, device);
        if (result == cudaSuccess)
            std::memcpy(properties, &full, kBytesOf11);
        return result;
    });
}

cudaError_t properties_12(Properties12* properties, int device) VGPU_CUDART_SYMBOL(cudaGetDeviceProperties_v2);
cudaError_t properties_12(Properties12* properties, int device) {
    return api("cudaGetDeviceProperties", Needs::kDriver,
               [&] { return properties == nullptr ? cudaErrorInvalidValue : fill12(*properties, device); });
}

cudaError_t pointer_attributes_12(PointerAttributes12* to, const void* pointer)
    VGPU_CUDART_SYMBOL(cudaPointerGetAttributes);
cudaError_t pointer_attributes_12(PointerAttributes12* to, const void* pointer) {
    return api("cudaPointerGetAttributes", Needs::kContext, [&]() -> cudaError_t {
        if (to == nullptr)
            return cudaErrorInvalidValue;
        PointerFacts facts;
        const cudaError_t result = find_pointer(facts, pointer);
        if (result == cudaSuccess)
            *to = {facts.type, facts.device, facts.device_pointer, facts.host_pointer};
        return result;
    });
}

cudaError_t prefetch_12(const void* pointer, size_t bytes, int device, cudaStream_t stream)
    VGPU_CUDART_SYMBOL(cudaMemPrefetchAsync);
cudaError_t prefetch_12(const void* pointer, size_t bytes, int device, cudaStream_t stream) {
    return prefetch(pointer, bytes, location_of(device), 0, stream);
}

cudaError_t prefetch_12_ptsz(const void* pointer, size_t bytes, int device, cudaStream_t stream)
    VGPU_CUDART_SYMBOL(cudaMemPrefetchAsync_ptsz);
cudaError_t prefetch_12_ptsz(const void* pointer, size_t bytes, int device, cudaStream_t stream) {
    return prefetch(pointer, bytes, location_of(device), 0, per_thread(stream));
}

cudaError_t advise_12(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device)
    VGPU_CUDART_SYMBOL(cudaMemAdvise);
cudaError_t advise_12(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device) {
    return advise(pointer, bytes, advice, location_of(device));
}

cudaError_t capture_info_12(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*)
    VGPU_CUDART_SYMBOL(cudaStreamGetCaptureInfo);
cudaError_t capture_info_12(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
    return capture_info(stream, status, id);
}

cudaError_t capture_info_12_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*)
    VGPU_CUDART_SYMBOL(cudaStreamGetCaptureInfo_ptsz);
cudaError_t capture_info_12_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
    return capture_info(per_thread(stream), status, id);
}

cudaError_t update_12(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags)
    VGPU_CUDART_SYMBOL(cudaStreamUpdateCaptureDependencies);
cudaError_t update_12(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags) {
    return update_dependencies(stream, nodes, nullptr, count, flags);
}

cudaError_t update_12_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags)
    VGPU_CUDART_SYMBOL(cudaStreamUpdateCaptureDependencies_ptsz);
cudaError_t update_12_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags) {
    return update_dependencies(per_thread(stream), nodes, nullptr, count, flags);
}

// Which copy failed is not told here: SIZE_MAX, as where the error is of none.
cudaError_t copy_batch_12(void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes,
                          size_t* starts, size_t attributes_count, size_t* failed, cudaStream_t stream)
    VGPU_CUDART_SYMBOL(cudaMemcpyBatchAsync);
cudaError_t copy_batch_12(void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes,
                          size_t* starts, size_t attributes_count, size_t* failed, cudaStream_t stream) {
    if (failed != nullptr)
        *failed = static_cast<size_t>(-1);
    return copy_batch(to, from, bytes, count, attributes, starts, attributes_count, stream);
}

cudaError_t copy_batch_12_ptsz(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                               void* attributes, size_t* starts, size_t attributes_count, size_t* failed,
                               cudaStream_t stream) VGPU_CUDART_SYMBOL(cudaMemcpyBatchAsync_ptsz);
cudaError_t copy_batch_12_ptsz(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                               void* attributes, size_t* starts, size_t attributes_count, size_t* failed,
                               cudaStream_t stream) {
    if (failed != nullptr)
        *failed = static_cast<size_t>(-1);
    return copy_batch(to, from, bytes, count, attributes, starts, attributes_count, per_thread(stream));
}

}  // extern "C"

VGPU_CUDART_API cudaError_t cudaMemPrefetchAsync_v2(const void* pointer, size_t bytes, cudaMemLocation location,
                                                    unsigned flags, cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, stream);
}

VGPU_CUDART_API cudaError_t cudaMemPrefetchAsync_v2_ptsz(const void* pointer, size_t bytes, cudaMemLocation location,
                                                         unsigned flags, cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, per_thread(stream));
}

VGPU_CUDART_API cudaError_t cudaMemAdvise_v2(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                                             cudaMemLocation location) {
    return advise(pointer, bytes, advice, location);
}

// _v2 and _v3 give a capture's graph too, and _v3 its edges' data.
VGPU_CUDART_API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                        unsigned long long* id, cudaGraph_t* graph,
                                                        const cudaGraphNode_t** nodes, size_t* count) {
    return capture_info(stream, status, id, graph, nodes, nullptr, count);
}

VGPU_CUDART_API cudaError_t cudaStreamGetCaptureInfo_v2_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                             unsigned long long* id, cudaGraph_t* graph,
                                                             const cudaGraphNode_t** nodes, size_t* count) {
    return capture_info(per_thread(stream), status, id, graph, nodes, nullptr, count);
}

VGPU_CUDART_API cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                        unsigned long long* id, cudaGraph_t* graph,
                                                        const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                                        size_t* count) {
    return capture_info(stream, status, id, graph, nodes, edges, count);
}

VGPU_CUDART_API cudaError_t cudaStreamGetCaptureInfo_v3_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                             unsigned long long* id, cudaGraph_t* graph,
                                                             const cudaGraphNode_t** nodes,
                                                             const cudaGraphEdgeData** edges, size_t* count) {
    return capture_info(per_thread(stream), status, id, graph, nodes, edges, count);
}

VGPU_CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                                   const cudaGraphEdgeData* edges, size_t count,
                                                                   unsigned flags) {
    return update_dependencies(stream, nodes, edges, count, flags);
}

VGPU_CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies_v2_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                                        const cudaGraphEdgeData* edges, size_t count,
                                                                        unsigned flags) {
    return update_dependencies(per_thread(stream), nodes, edges, count, flags);
}

VGPU_CUDART_API cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return cudaEventElapsedTime(milliseconds, start, end);
}

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPoint", symbol, function, kVersion, flags, status);
}

VGPU_CUDART_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                                         cudaDriverEntryPointQueryResult* status) {
    return driver_entry_point("cudaGetDriverEntryPoint", symbol, function, kVersion, per_thread_flags(flags), status);
}

// Names of before CUDA 4.0 that CUDA 12 still has.
VGPU_CUDART_API cudaError_t cudaThreadSynchronize() {
    return cudaDeviceSynchronize();
}
VGPU_CUDART_API cudaError_t cudaThreadExit() {
    return cudaDeviceReset();
}
