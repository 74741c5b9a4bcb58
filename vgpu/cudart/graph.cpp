// Graphs: those that captures make. The functions that add nodes or change them exist because programs that can do
// without them (PyTorch, CuPy) link them; each says cudaErrorNotSupported, and none ever succeeds. Other functions of
// graphs do not exist at all.
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
VGPU_CUDART_UNSUPPORTED(cudaGraphDebugDotPrint)
VGPU_CUDART_UNSUPPORTED(cudaGraphExecUpdate)
VGPU_CUDART_UNSUPPORTED(cudaGraphReleaseUserObject)
VGPU_CUDART_UNSUPPORTED(cudaGraphRetainUserObject)
VGPU_CUDART_UNSUPPORTED(cudaUserObjectCreate)
VGPU_CUDART_UNSUPPORTED(cudaUserObjectRelease)
VGPU_CUDART_UNSUPPORTED(cudaUserObjectRetain)

static_assert(static_cast<int>(cudaGraphNodeTypeKernel) == CU_GRAPH_NODE_TYPE_KERNEL);
static_assert(static_cast<int>(cudaGraphNodeTypeEmpty) == CU_GRAPH_NODE_TYPE_EMPTY);
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));

VGPU_CUDART_API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
    return api("cudaGraphCreate", Needs::kContext, [&] { return cuGraphCreate(graph, flags); });
}

VGPU_CUDART_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return api("cudaGraphDestroy", Needs::kContext, [&] { return cuGraphDestroy(graph); });
}

VGPU_CUDART_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return api("cudaGraphGetNodes", Needs::kContext, [&] { return cuGraphGetNodes(graph, nodes, count); });
}

VGPU_CUDART_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return api("cudaGraphGetRootNodes", Needs::kContext, [&] { return cuGraphGetRootNodes(graph, nodes, count); });
}

VGPU_CUDART_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    return api("cudaGraphNodeGetType", Needs::kContext,
               [&] { return cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)); });
}

VGPU_CUDART_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                 unsigned long long flags) {
    return api("cudaGraphInstantiate", Needs::kContext,
               [&] { return cuGraphInstantiateWithFlags(executable, graph, flags); });
}

VGPU_CUDART_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                          unsigned long long flags) {
    return api("cudaGraphInstantiateWithFlags", Needs::kContext,
               [&] { return cuGraphInstantiateWithFlags(executable, graph, flags); });
}

VGPU_CUDART_API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                           cudaGraphInstantiateParams* how) {
    return api("cudaGraphInstantiateWithParams", Needs::kContext, [&] {
        return cuGraphInstantiateWithParams(executable, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(how));
    });
}

VGPU_CUDART_API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    return api_on_stream("cudaGraphLaunch", stream, [&] { return cuGraphLaunch(executable, stream); });
}

VGPU_CUDART_API cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
    return api("cudaGraphUpload", Needs::kContext, [&] { return cuGraphUpload(executable, stream); });
}

VGPU_CUDART_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    return api("cudaGraphExecDestroy", Needs::kContext, [&] { return cuGraphExecDestroy(executable); });
}
