// Declarations of CUDA 13.0's headers that older ones (12.2 and later) do not have. The virtual GPUs have the interface
// of CUDA 13.0 whichever headers are at hand. Included after cuda.h (and the runtime's headers) by vgpu/cuda/api.hpp,
// vgpu/cudart/runtime.hpp and tests/vgpu/cuda only. What the header declares too is declared a second time; a macro
// hides an enumerator of the same name and value.
#pragma once

namespace vgpu {

// The version that CUDA 13's cudaRuntimeGetVersion returns, and cuDriverGetVersion where VGPU_DRIVER does not say else.
inline constexpr int kCudaVersion = 13000;

}  // namespace vgpu

typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUgreenCtx_st* CUgreenCtx;
typedef struct CUctxCreateParams_st CUctxCreateParams;

#if CUDA_VERSION < 12040
typedef enum CUfunctionLoadingState_enum {
    CU_FUNCTION_LOADING_STATE_UNLOADED = 0,
    CU_FUNCTION_LOADING_STATE_LOADED = 1
} CUfunctionLoadingState;
#endif

#if CUDA_VERSION < 12050
struct CUctxCreateParams_st {
    CUexecAffinityParam* execAffinityParams;
    int numExecAffinityParams;
    struct CUctxCigParam_st* cigParams;
};
#endif

#if CUDA_VERSION < 12080
typedef enum CUmemcpySrcAccessOrder_enum {
    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1,
    CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL = 2,
    CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3
} CUmemcpySrcAccessOrder;
typedef struct CUmemcpyAttributes_st {
    CUmemcpySrcAccessOrder srcAccessOrder;
    CUmemLocation srcLocHint, dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;
#endif

#if CUDA_VERSION < 13000
#define CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER static_cast<CUresult>(36)
#define CUDA_ERROR_CONTAINED static_cast<CUresult>(226)
#define CUDA_ERROR_LOSSY_QUERY static_cast<CUresult>(402)
#define CUDA_ERROR_TENSOR_MEMORY_LEAK static_cast<CUresult>(721)
#define CUDA_ERROR_FUNCTION_NOT_LOADED static_cast<CUresult>(913)
#define CUDA_ERROR_INVALID_RESOURCE_TYPE static_cast<CUresult>(914)
#define CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION static_cast<CUresult>(915)
#define CUDA_ERROR_KEY_ROTATION static_cast<CUresult>(916)

#define CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED static_cast<CUdevice_attribute>(128)
#define CU_DEVICE_ATTRIBUTE_MPS_ENABLED static_cast<CUdevice_attribute>(133)
#define CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED static_cast<CUdevice_attribute>(135)
#define CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK static_cast<CUdevice_attribute>(136)
#define CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH static_cast<CUdevice_attribute>(137)
#define CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED static_cast<CUdevice_attribute>(138)
#define CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID static_cast<CUdevice_attribute>(139)
#define CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID static_cast<CUdevice_attribute>(140)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED static_cast<CUdevice_attribute>(141)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED static_cast<CUdevice_attribute>(142)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED static_cast<CUdevice_attribute>(143)
#define CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED static_cast<CUdevice_attribute>(144)
#define CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED static_cast<CUdevice_attribute>(145)
#define CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED static_cast<CUdevice_attribute>(146)
#define CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED static_cast<CUdevice_attribute>(147)
#define CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED static_cast<CUdevice_P2PAttribute>(5)
#define CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE static_cast<CUpointer_attribute>(21)

#define cudaDevAttrMpsEnabled static_cast<cudaDeviceAttr>(133)
#define cudaDevAttrGpuPciDeviceId static_cast<cudaDeviceAttr>(139)
#define cudaDevAttrGpuPciSubsystemId static_cast<cudaDeviceAttr>(140)
#define cudaDevAttrHostNumaMultinodeIpcSupported static_cast<cudaDeviceAttr>(143)
#define cudaErrorContained static_cast<cudaError_t>(226)
#define cudaErrorLossyQuery static_cast<cudaError_t>(402)
#define cudaErrorTensorMemoryLeak static_cast<cudaError_t>(721)
#define cudaErrorFunctionNotLoaded static_cast<cudaError_t>(913)
#define cudaErrorInvalidResourceType static_cast<cudaError_t>(914)
#define cudaErrorInvalidResourceConfiguration static_cast<cudaError_t>(915)
#endif

#pragma GCC visibility push(default)
extern "C" {
CUresult cuCtxCreate_v4(CUcontext*, CUctxCreateParams*, unsigned, CUdevice);
CUresult cuCtxGetDevice_v2(CUdevice*, CUcontext);
CUresult cuCtxSynchronize_v2(CUcontext);
CUresult cuEventElapsedTime_v2(float*, CUevent, CUevent);
CUresult cuFuncGetName(const char**, CUfunction);
CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t*, size_t*);
CUresult cuFuncIsLoaded(CUfunctionLoadingState*, CUfunction);
CUresult cuFuncLoad(CUfunction);
CUresult cuKernelGetName(const char**, CUkernel);
CUresult cuKernelGetParamInfo(CUkernel, size_t, size_t*, size_t*);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t,
                               CUstream);
CUresult cuStreamGetCaptureInfo_v3(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                   const CUgraphEdgeData**, size_t*);
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                        const CUgraphEdgeData**, size_t*);
CUresult cuStreamBeginCaptureToGraph(CUstream, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, size_t,
                                     CUstreamCaptureMode);
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, size_t,
                                          CUstreamCaptureMode);
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned);
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned);
CUresult cuStreamGetCtx_v2(CUstream, CUcontext*, CUgreenCtx*);
CUresult cuStreamGetCtx_v2_ptsz(CUstream, CUcontext*, CUgreenCtx*);
CUresult cuStreamGetDevice(CUstream, CUdevice*);
CUresult cuStreamGetDevice_ptsz(CUstream, CUdevice*);
}
#pragma GCC visibility pop
