#include "vgpu/cuda/capture.hpp"

#include <algorithm>
#include <set>

namespace vgpu::cuda {
namespace {

thread_local CaptureMode t_mode = CaptureMode::Global;

void invalidate(Capture& capture) {
    capture.valid = false;
}

// A capture of a blocking stream is one of what the legacy stream stands for.
bool capture_conflicts_with_legacy(const Capture& capture, const Context& context) {
    return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const auto& entry) {
        return entry.first->blocking() && &entry.first->context() == &context;
    });
}

bool conflicts_with_legacy(const Context& context, bool invalidates) {
    bool any = false;
    for (const auto& capture : captures().all)
        if (capture_conflicts_with_legacy(*capture, context)) {
            any = true;
            if (invalidates)
                invalidate(*capture);
        }
    return any;
}

}  // namespace

CUresult potentially_unsafe() {
    if (!captures().any() || t_mode == CaptureMode::Relaxed)
        return CUDA_SUCCESS;
    const std::lock_guard guard(captures().lock);
    CUresult result = CUDA_SUCCESS;
    for (const auto& capture : captures().all) {
        const bool own = capture->thread == std::this_thread::get_id();
        if (own ? capture->mode == CaptureMode::Relaxed
                : capture->mode != CaptureMode::Global || t_mode != CaptureMode::Global)
            continue;
        invalidate(*capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

bool known_unsafe(std::string_view function) {
    // tests/gpu/captures asks a GPU. What has not been asked is in the list because its kin are.
    static const std::set<std::string_view> kAll = {"cuMemAlloc",
                                                    "cuMemAllocPitch",
                                                    "cuMemAllocManaged",
                                                    "cuMemFree",
                                                    "cuMemHostAlloc",
                                                    "cuMemAllocHost",
                                                    "cuMemFreeHost",
                                                    "cuMemHostRegister",
                                                    "cuMemHostUnregister",
                                                    "cuMemAllocAsync",
                                                    "cuMemAllocFromPoolAsync",
                                                    "cuMemFreeAsync",
                                                    "cuMemPoolCreate",
                                                    "cuMemPoolDestroy",
                                                    "cuMemPoolTrimTo",
                                                    "cuPointerSetAttribute",
                                                    "cuModuleUnload",
                                                    "cuLibraryUnload",
                                                    "cuGraphInstantiate",
                                                    "cuGraphInstantiateWithFlags",
                                                    "cuGraphInstantiateWithParams",
                                                    "cuCtxEnablePeerAccess",
                                                    "cuCtxDisablePeerAccess"};
    return kAll.contains(function);
}

CUresult admit(const std::shared_ptr<Stream>& stream, Use use) {
    if (!captures().any())
        return CUDA_SUCCESS;
    const std::lock_guard guard(captures().lock);
    if (stream->kind() == StreamKind::Legacy && conflicts_with_legacy(stream->context(), true))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (const auto capture = captures().of(*stream); capture != nullptr) {
        if (!capture->valid)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (use == Use::Node)
            return CUDA_SUCCESS;
        invalidate(*capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return use == Use::Wait ? potentially_unsafe() : CUDA_SUCCESS;
}

CUresult admit(const Event& event) {
    if (const auto record = event.captured(); record != nullptr) {
        const std::lock_guard guard(captures().lock);
        invalidate(*record->capture);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return potentially_unsafe();
}

CUresult admit(const Context& context) {
    if (!captures().any())
        return CUDA_SUCCESS;
    const std::lock_guard guard(captures().lock);
    CUresult result = CUDA_SUCCESS;
    for (const auto& capture : captures().all)
        if (std::any_of(capture->streams.begin(), capture->streams.end(),
                        [&](const auto& entry) { return &entry.first->context() == &context; })) {
            invalidate(*capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result == CUDA_SUCCESS ? potentially_unsafe() : result;
}

bool capturing(const std::shared_ptr<Stream>& stream) {
    if (!captures().any())
        return false;
    const std::lock_guard guard(captures().lock);
    return captures().of(*stream) != nullptr;
}

bool record_in_capture(const std::shared_ptr<Stream>& stream, Event& event) {
    if (!captures().any())
        return false;
    const std::lock_guard guard(captures().lock);
    const auto capture = captures().of(*stream);
    if (capture == nullptr)
        return false;
    event.record_captured(std::make_shared<CapturedRecord>(CapturedRecord{capture, capture->streams[stream].after}));
    return true;
}

bool wait_in_capture(const std::shared_ptr<Stream>& stream, const Event& event, CUresult& result) {
    const auto record = event.captured();
    if (record == nullptr && !captures().any())
        return false;
    const std::lock_guard guard(captures().lock);
    const auto capture = captures().of(*stream);
    if (record == nullptr && capture == nullptr)
        return false;
    result = CUDA_SUCCESS;
    if (record == nullptr) {
        invalidate(*capture);
        result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    } else if (record->capture->ended) {
        if (capture != nullptr)
            invalidate(*capture);
        result = CUDA_ERROR_CAPTURED_EVENT;
    } else if (!record->capture->valid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (capture != nullptr && capture != record->capture) {
        invalidate(*capture);
        invalidate(*record->capture);
        result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    } else if (stream->kind() == StreamKind::Legacy) {  // which no capture takes
        invalidate(*record->capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else {  // from now on the stream takes part
        Nodes& after = record->capture->streams[stream].after;
        for (const auto& node : record->after)
            if (std::find(after.begin(), after.end(), node) == after.end())
                after.push_back(node);
    }
    return true;
}

void leave_capture(const std::shared_ptr<Stream>& stream) {
    if (!captures().any())
        return;
    const std::lock_guard guard(captures().lock);
    const auto capture = captures().of(*stream);
    if (capture == nullptr)
        return;
    invalidate(*capture);
    if (capture->origin == stream)
        captures().end(capture);
    else
        capture->streams.erase(stream);
}

void end_captures(const Context& context) {
    if (!captures().any())
        return;
    const std::lock_guard guard(captures().lock);
    for (const auto& capture : std::vector(captures().all))
        if (&capture->origin->context() == &context)
            captures().end(capture);
}

}  // namespace vgpu::cuda

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

bool mode_of(CUstreamCaptureMode given, CaptureMode& mode) {
    if (given < CU_STREAM_CAPTURE_MODE_GLOBAL || given > CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    mode = static_cast<CaptureMode>(given);
    return true;
}

bool nodes_of(const CUgraphNode* given, std::size_t count, Nodes& nodes) {
    if (count != 0 && given == nullptr)
        return false;
    for (std::size_t i = 0; i < count; ++i) {
        nodes.push_back(node_handles().find(given[i]));
        if (nodes.back() == nullptr)
            return false;
    }
    return true;
}

CUresult begin_capture(const Entry& entry, CUstream given, std::shared_ptr<Graph> graph, Nodes after,
                       CUstreamCaptureMode given_mode) {
    CaptureMode mode{};
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!mode_of(given_mode, mode))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->kind() == StreamKind::Legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const std::lock_guard guard(captures().lock);
    if (captures().of(*stream) != nullptr)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (graph == nullptr) {
        graph = std::make_shared<Graph>();
        graph_handles().add(graph);
    }
    captures().begin(stream, mode, std::move(graph), std::move(after));
    return CUDA_SUCCESS;
}

CUresult end_capture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>& graph) {
    const auto capture = captures().of(*stream);
    if (capture == nullptr)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
        capture->valid = false;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    const bool wrong_thread = capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id();
    const CUresult result = wrong_thread        ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                            : !capture->valid   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                            : capture->joined() ? CUDA_SUCCESS
                                                : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    captures().end(capture);
    if (result == CUDA_SUCCESS)
        graph = capture->graph;
    else
        graph_handles().remove(capture->graph.get());
    return result;
}

// What a query of a capture gives; a null pointer: not asked for.
struct CaptureInfo {
    CUstreamCaptureStatus* status;
    cuuint64_t* id = nullptr;
    CUgraph* graph = nullptr;
    const CUgraphNode** nodes = nullptr;
    std::size_t* count = nullptr;
};

template <typename Value>
void give(Value* out, Value value) {
    if (out != nullptr)
        *out = value;
}

CUresult describe_capture(const Entry& entry, CUstream given, const CaptureInfo& out) {
    if (out.status == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *out.status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!captures().any())
        return CUDA_SUCCESS;
    const std::lock_guard guard(captures().lock);
    if (stream->kind() == StreamKind::Legacy && conflicts_with_legacy(stream->context(), false))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    const auto capture = captures().of(*stream);
    if (capture == nullptr)
        return CUDA_SUCCESS;
    *out.status = capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    if (!capture->valid)
        return CUDA_SUCCESS;
    Capture::Place& place = capture->streams[stream];
    place.handles.clear();
    for (const auto& node : place.after)
        place.handles.push_back(node.get());
    give(out.id, static_cast<cuuint64_t>(capture->id));
    give(out.graph, reinterpret_cast<CUgraph>(capture->graph.get()));
    give(out.nodes, reinterpret_cast<const CUgraphNode*>(place.handles.data()));
    give(out.count, place.handles.size());
    return CUDA_SUCCESS;
}

CUresult update_dependencies(const Entry& entry, CUstream given, const CUgraphNode* nodes, std::size_t count,
                             unsigned flags) {
    Nodes more;
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || !nodes_of(nodes, count, more))
        return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard guard(captures().lock);
    const auto capture = captures().of(*stream);
    if (capture == nullptr)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!capture->valid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    Nodes& after = capture->streams[stream].after;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        after.clear();
    for (const auto& node : more)
        if (std::find(after.begin(), after.end(), node) == after.end())
            after.push_back(node);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    VGPU_ENTER(cuStreamBeginCapture, Needs::Context);
    return begin_capture(entry, stream, nullptr, {}, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return cuStreamBeginCapture_v2(per_thread(stream), mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
    VGPU_ENTER(cuStreamBeginCaptureToGraph, Needs::Context);
    Nodes after;
    auto into = graph_handles().find(graph);
    if (into == nullptr || !nodes_of(nodes, count, after))
        return CUDA_ERROR_INVALID_VALUE;
    if (edges != nullptr)
        return CUDA_ERROR_NOT_SUPPORTED;  // such edges are of programmatic launches
    return begin_capture(entry, stream, std::move(into), std::move(after), mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                          const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
    return cuStreamBeginCaptureToGraph(per_thread(stream), graph, nodes, edges, count, mode);
}

CUresult cuStreamEndCapture(CUstream given, CUgraph* out) {
    VGPU_ENTER(cuStreamEndCapture, Needs::Context);
    const auto stream = stream_of(entry, given);
    if (out == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    const std::lock_guard guard(captures().lock);
    std::shared_ptr<Graph> graph;
    const CUresult result = end_capture(stream, graph);
    *out = reinterpret_cast<CUgraph>(graph.get());
    return result;
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
    return cuStreamEndCapture(per_thread(stream), graph);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    VGPU_ENTER(cuThreadExchangeStreamCaptureMode, Needs::Init);
    if (mode == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const CaptureMode before = t_mode;
    t_mode = static_cast<CaptureMode>(*mode);  // the driver takes any number
    *mode = static_cast<CUstreamCaptureMode>(before);
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    VGPU_ENTER(cuStreamIsCapturing, Needs::Context);
    return describe_capture(entry, stream, {status});
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
    return cuStreamIsCapturing(per_thread(stream), status);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
    VGPU_ENTER(cuStreamGetCaptureInfo, Needs::Context);
    return describe_capture(entry, stream, {status, id});
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
    return cuStreamGetCaptureInfo(per_thread(stream), status, id);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, size_t* count) {
    VGPU_ENTER(cuStreamGetCaptureInfo, Needs::Context);
    return describe_capture(entry, stream, {status, id, graph, nodes, count});
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** nodes, size_t* count) {
    return cuStreamGetCaptureInfo_v2(per_thread(stream), status, id, graph, nodes, count);
}

// No edge has data: none are of programmatic launches.
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
    VGPU_ENTER(cuStreamGetCaptureInfo, Needs::Context);
    give(edges, static_cast<const CUgraphEdgeData*>(nullptr));
    return describe_capture(entry, stream, {status, id, graph, nodes, count});
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
    return cuStreamGetCaptureInfo_v3(per_thread(stream), status, id, graph, nodes, edges, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count, unsigned int flags) {
    VGPU_ENTER(cuStreamUpdateCaptureDependencies, Needs::Context);
    return update_dependencies(entry, stream, nodes, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode* nodes, size_t count, unsigned int flags) {
    return cuStreamUpdateCaptureDependencies(per_thread(stream), nodes, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData* edges,
                                              size_t count, unsigned int flags) {
    VGPU_ENTER(cuStreamUpdateCaptureDependencies, Needs::Context);
    return edges != nullptr ? CUDA_ERROR_NOT_SUPPORTED : update_dependencies(entry, stream, nodes, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData* edges,
                                                   size_t count, unsigned int flags) {
    return cuStreamUpdateCaptureDependencies_v2(per_thread(stream), nodes, edges, count, flags);
}
