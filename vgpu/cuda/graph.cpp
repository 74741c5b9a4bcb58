// Graphs: they are captured from streams, instantiated and launched. Nodes cannot be added, changed or removed by
// calls, and a graph cannot be launched into a capture.
#include <algorithm>

#include "vgpu/cuda/capture.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

Registry<Executable>& executable_handles() {
    static auto& all = *new Registry<Executable>;
    return all;
}

CUgraphNodeType type_of(Work work) {
    switch (work) {
        case Work::Copy:
            return CU_GRAPH_NODE_TYPE_MEMCPY;
        case Work::Fill:
            return CU_GRAPH_NODE_TYPE_MEMSET;
        case Work::Kernel:
            return CU_GRAPH_NODE_TYPE_KERNEL;
        case Work::HostFunction:
            return CU_GRAPH_NODE_TYPE_HOST;
        case Work::MemoryOperations:
            return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
        default:
            return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

// With no room for nodes the number alone is returned; with too much the rest is null (cuGraphGetNodes).
CUresult list_nodes(CUgraph given, CUgraphNode* out, std::size_t* count, bool roots) {
    const auto graph = graph_handles().find(given);
    if (graph == nullptr || count == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    Nodes nodes = graph->nodes();
    if (roots)
        std::erase_if(nodes, [](const auto& node) { return !node->after.empty(); });
    if (out == nullptr) {
        *count = nodes.size();
        return CUDA_SUCCESS;
    }
    for (std::size_t i = 0; i < *count; ++i)
        out[i] = i < nodes.size() ? reinterpret_cast<CUgraphNode>(nodes[i].get()) : nullptr;
    *count = std::min(*count, nodes.size());
    return CUDA_SUCCESS;
}

bool under_capture(const Graph& graph) {
    const std::lock_guard guard(captures().lock);
    return std::any_of(captures().all.begin(), captures().all.end(),
                       [&](const auto& capture) { return capture->graph.get() == &graph; });
}

CUresult instantiate(CUgraphExec* out, CUgraph given, unsigned long long flags) {
    constexpr unsigned long long kTaken = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                          CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                          CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    const auto graph = graph_handles().find(given);
    if (out == nullptr || graph == nullptr || under_capture(*graph))
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if ((flags & ~kTaken) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUgraphExec>(executable_handles().add(std::make_shared<Executable>(graph->nodes())));
    return CUDA_SUCCESS;
}

CUresult launch(const Entry& entry, CUgraphExec given, CUstream given_stream, bool upload) {
    const auto executable = executable_handles().find(given);
    const auto stream = stream_of(entry, given_stream);
    if (executable == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = admit(stream, Use::NoNode); result != CUDA_SUCCESS)
        return result;
    if (upload)
        return CUDA_SUCCESS;
    const Logged logged(entry.name(), stream.get(), {});
    logged.launch();
    executable->launch(stream, entry.hang());
    return failure_of(stream->context());
}

}  // namespace

CUresult cuGraphCreate(CUgraph* graph, unsigned int flags) {
    VGPU_ENTER(cuGraphCreate, Needs::Init);
    if (graph == nullptr || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = reinterpret_cast<CUgraph>(graph_handles().add(std::make_shared<Graph>()));
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    VGPU_ENTER(cuGraphDestroy, Needs::Init);
    return graph_handles().remove(graph) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    VGPU_ENTER(cuGraphGetNodes, Needs::Init);
    return list_nodes(graph, nodes, count, false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    VGPU_ENTER(cuGraphGetRootNodes, Needs::Init);
    return list_nodes(graph, nodes, count, true);
}

CUresult cuGraphNodeGetType(CUgraphNode given, CUgraphNodeType* type) {
    VGPU_ENTER(cuGraphNodeGetType, Needs::Init);
    const auto node = node_handles().find(given);
    if (node == nullptr || type == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *type = type_of(node->work);
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
    VGPU_ENTER(cuGraphInstantiateWithFlags, Needs::Context);
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        return CUDA_ERROR_INVALID_VALUE;  // only with parameters, which have a stream
    return instantiate(executable, graph, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* executable, CUgraph graph, CUgraphNode* failed, char* log, size_t room) {
    VGPU_ENTER(cuGraphInstantiate, Needs::Context);
    if (failed != nullptr)
        *failed = nullptr;
    if (log != nullptr && room > 0)
        *log = '\0';
    return instantiate(executable, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode* failed, char* log, size_t room) {
    return cuGraphInstantiate_v2(executable, graph, failed, log, room);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* how) {
    VGPU_ENTER(cuGraphInstantiateWithParams, Needs::Context);
    if (how == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = instantiate(executable, graph, how->flags);
    how->hErrNode_out = nullptr;
    how->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* how) {
    return cuGraphInstantiateWithParams(executable, graph, how);
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
    VGPU_ENTER(cuGraphExecDestroy, Needs::Init);
    return executable_handles().remove(executable) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    VGPU_ENTER(cuGraphLaunch, Needs::Context, Hang::Enqueues);
    return launch(entry, executable, stream, false);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream) {
    return cuGraphLaunch(executable, per_thread(stream));
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
    VGPU_ENTER(cuGraphUpload, Needs::Context);
    return launch(entry, executable, stream, true);
}

CUresult cuGraphUpload_ptsz(CUgraphExec executable, CUstream stream) {
    return cuGraphUpload(executable, per_thread(stream));
}
