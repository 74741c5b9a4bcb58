// Fills a cudaDeviceProp from the driver's attributes. A template over the structure: CUDA 12 and 13 lay it out
// differently. Only abi12.cpp and abi13.cpp call it.
#pragma once

#include <cstring>
#include <initializer_list>

#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

// Reads attributes of one device; an attribute that the virtual GPU does not have leaves 0, as a GPU without the
// feature reports.
class AttributeReader {
  public:
    explicit AttributeReader(CUdevice device) : device_(device) {}

    template <class Field>
    void operator()(Field& field, cudaDeviceAttr attribute) const {
        int value = 0;
        if (cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), device_) == CUDA_SUCCESS)
            field = static_cast<Field>(value);
    }

    template <int Count>
    void operator()(int (&field)[Count], std::initializer_list<cudaDeviceAttr> attributes) const {
        int* next = field;
        for (const cudaDeviceAttr attribute : attributes)
            (*this)(*next++, attribute);
    }

  private:
    CUdevice device_;
};

template <class Properties>
void fill_execution(Properties& to, const AttributeReader& read) {
    read(to.sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock);
    read(to.regsPerBlock, cudaDevAttrMaxRegistersPerBlock);
    read(to.warpSize, cudaDevAttrWarpSize);
    read(to.maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock);
    read(to.maxThreadsDim, {cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ});
    read(to.maxGridSize, {cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ});
    read(to.major, cudaDevAttrComputeCapabilityMajor);
    read(to.minor, cudaDevAttrComputeCapabilityMinor);
    read(to.multiProcessorCount, cudaDevAttrMultiProcessorCount);
    read(to.concurrentKernels, cudaDevAttrConcurrentKernels);
    read(to.asyncEngineCount, cudaDevAttrAsyncEngineCount);
    read(to.maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor);
    read(to.streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported);
    read(to.globalL1CacheSupported, cudaDevAttrGlobalL1CacheSupported);
    read(to.localL1CacheSupported, cudaDevAttrLocalL1CacheSupported);
    read(to.sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    read(to.regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor);
    read(to.computePreemptionSupported, cudaDevAttrComputePreemptionSupported);
    read(to.cooperativeLaunch, cudaDevAttrCooperativeLaunch);
    read(to.sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    read(to.maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor);
    read(to.reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock);
}

template <class Properties>
void fill_memory(Properties& to, const AttributeReader& read) {
    read(to.memPitch, cudaDevAttrMaxPitch);
    read(to.totalConstMem, cudaDevAttrTotalConstantMemory);
    read(to.textureAlignment, cudaDevAttrTextureAlignment);
    read(to.texturePitchAlignment, cudaDevAttrTexturePitchAlignment);
    read(to.surfaceAlignment, cudaDevAttrSurfaceAlignment);
    read(to.canMapHostMemory, cudaDevAttrCanMapHostMemory);
    read(to.ECCEnabled, cudaDevAttrEccEnabled);
    read(to.unifiedAddressing, cudaDevAttrUnifiedAddressing);
    read(to.memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth);
    read(to.l2CacheSize, cudaDevAttrL2CacheSize);
    read(to.persistingL2CacheMaxSize, cudaDevAttrMaxPersistingL2CacheSize);
    read(to.accessPolicyMaxWindowSize, cudaDevAttrMaxAccessPolicyWindowSize);
    read(to.managedMemory, cudaDevAttrManagedMemory);
    read(to.hostNativeAtomicSupported, cudaDevAttrHostNativeAtomicSupported);
    read(to.pageableMemoryAccess, cudaDevAttrPageableMemoryAccess);
    read(to.concurrentManagedAccess, cudaDevAttrConcurrentManagedAccess);
    read(to.canUseHostPointerForRegisteredMem, cudaDevAttrCanUseHostPointerForRegisteredMem);
    read(to.pageableMemoryAccessUsesHostPageTables, cudaDevAttrPageableMemoryAccessUsesHostPageTables);
    read(to.directManagedMemAccessFromHost, cudaDevAttrDirectManagedMemAccessFromHost);
}

template <class Properties>
void fill_place(Properties& to, const AttributeReader& read) {
    read(to.integrated, cudaDevAttrIntegrated);
    read(to.pciBusID, cudaDevAttrPciBusId);
    read(to.pciDeviceID, cudaDevAttrPciDeviceId);
    read(to.pciDomainID, cudaDevAttrPciDomainId);
    read(to.tccDriver, cudaDevAttrTccDriver);
    read(to.isMultiGpuBoard, cudaDevAttrIsMultiGpuBoard);
    read(to.multiGpuBoardGroupID, cudaDevAttrMultiGpuBoardGroupID);
}

// The members that CUDA 12.0 added at the end.
template <class Properties>
void fill_newer(Properties& to, const AttributeReader& read) {
    read(to.hostRegisterSupported, cudaDevAttrHostRegisterSupported);
    read(to.sparseCudaArraySupported, cudaDevAttrSparseCudaArraySupported);
    read(to.hostRegisterReadOnlySupported, cudaDevAttrHostRegisterReadOnlySupported);
    read(to.timelineSemaphoreInteropSupported, cudaDevAttrTimelineSemaphoreInteropSupported);
    read(to.memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported);
    read(to.gpuDirectRDMASupported, cudaDevAttrGPUDirectRDMASupported);
    read(to.gpuDirectRDMAFlushWritesOptions, cudaDevAttrGPUDirectRDMAFlushWritesOptions);
    read(to.gpuDirectRDMAWritesOrdering, cudaDevAttrGPUDirectRDMAWritesOrdering);
    read(to.memoryPoolSupportedHandleTypes, cudaDevAttrMemoryPoolSupportedHandleTypes);
    read(to.deferredMappingCudaArraySupported, cudaDevAttrDeferredMappingCudaArraySupported);
    read(to.ipcEventSupported, cudaDevAttrIpcEventSupport);
    read(to.clusterLaunch, cudaDevAttrClusterLaunch);
    read(to.unifiedFunctionPointers, static_cast<cudaDeviceAttr>(CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS));
}

// Textures stay 0: virtual GPUs have no arrays.
template <class Properties>
cudaError_t fill_common(Properties& to, int device) {
    if (const cudaError_t valid = check_device(device); valid != cudaSuccess)
        return valid;
    std::memset(&to, 0, sizeof to);
    cuDeviceGetName(to.name, sizeof to.name, device);
    cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&to.uuid), device);
    cuDeviceTotalMem(&to.totalGlobalMem, device);
    const AttributeReader read(device);
    fill_execution(to, read);
    fill_memory(to, read);
    fill_place(to, read);
    return cudaSuccess;
}

}  // namespace vgpu::cudart
