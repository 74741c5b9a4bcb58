// Graphs and stream capture are not simulated. These functions exist because programs that can do without graphs
// (nccl-tests, PyTorch, CuPy) link them; each says cudaErrorNotSupported, and none ever succeeds. Graph functions that
// no such program links do not exist at all.
#include "vgpu/cudart/runtime.hpp"

using namespace vgpu::cudart;

// Every argument is ignored, so one C signature serves all: the assembler label gives the symbol, and no caller notices
// under the platform's calling conventions (the caller cleans up).
#define VGPU_CUDART_UNSUPPORTED(name)                                                                  \
    extern "C" cudaError_t unsupported_##name() __asm__(#name) __attribute__((visibility("default"))); \
    extern "C" cudaError_t unsupported_##name() {                                                      \
        return api(#name, Needs::kNothing, [] { return cudaErrorNotSupported; });                      \
    }

VGPU_CUDART_UNSUPPORTED(cudaGraphAddDependencies)
VGPU_CUDART_UNSUPPORTED(cudaGraphAddEmptyNode)
VGPU_CUDART_UNSUPPORTED(cudaGraphAddEventRecordNode)
VGPU_CUDART_UNSUPPORTED(cudaGraphAddEventWaitNode)
VGPU_CUDART_UNSUPPORTED(cudaGraphAddHostNode)
VGPU_CUDART_UNSUPPORTED(cudaGraphAddKernelNode)
VGPU_CUDART_UNSUPPORTED(cudaGraphAddNode)
VGPU_CUDART_UNSUPPORTED(cudaGraphCreate)
VGPU_CUDART_UNSUPPORTED(cudaGraphDebugDotPrint)
VGPU_CUDART_UNSUPPORTED(cudaGraphDestroy)
VGPU_CUDART_UNSUPPORTED(cudaGraphExecDestroy)
VGPU_CUDART_UNSUPPORTED(cudaGraphExecUpdate)
VGPU_CUDART_UNSUPPORTED(cudaGraphGetNodes)
VGPU_CUDART_UNSUPPORTED(cudaGraphGetRootNodes)
VGPU_CUDART_UNSUPPORTED(cudaGraphInstantiate)
VGPU_CUDART_UNSUPPORTED(cudaGraphInstantiateWithFlags)
VGPU_CUDART_UNSUPPORTED(cudaGraphInstantiateWithParams)
VGPU_CUDART_UNSUPPORTED(cudaGraphInstantiateWithParams_ptsz)
VGPU_CUDART_UNSUPPORTED(cudaGraphLaunch)
VGPU_CUDART_UNSUPPORTED(cudaGraphLaunch_ptsz)
VGPU_CUDART_UNSUPPORTED(cudaGraphNodeGetType)
VGPU_CUDART_UNSUPPORTED(cudaGraphReleaseUserObject)
VGPU_CUDART_UNSUPPORTED(cudaGraphRetainUserObject)
VGPU_CUDART_UNSUPPORTED(cudaGraphUpload)
VGPU_CUDART_UNSUPPORTED(cudaGraphUpload_ptsz)
VGPU_CUDART_UNSUPPORTED(cudaStreamBeginCapture)
VGPU_CUDART_UNSUPPORTED(cudaStreamBeginCapture_ptsz)
VGPU_CUDART_UNSUPPORTED(cudaStreamBeginCaptureToGraph)
VGPU_CUDART_UNSUPPORTED(cudaStreamBeginCaptureToGraph_ptsz)
VGPU_CUDART_UNSUPPORTED(cudaStreamEndCapture)
VGPU_CUDART_UNSUPPORTED(cudaStreamEndCapture_ptsz)
VGPU_CUDART_UNSUPPORTED(cudaStreamUpdateCaptureDependencies)
VGPU_CUDART_UNSUPPORTED(cudaStreamUpdateCaptureDependencies_ptsz)
VGPU_CUDART_UNSUPPORTED(cudaUserObjectCreate)
VGPU_CUDART_UNSUPPORTED(cudaUserObjectRelease)
VGPU_CUDART_UNSUPPORTED(cudaUserObjectRetain)
