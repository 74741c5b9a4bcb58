// Stream capture is not simulated: beginning one is refused, and no stream ever captures.
#include "vgpu/cuda/api.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
    VGPU_ENTER(cuStreamBeginCapture, Needs::Context);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return cuStreamBeginCapture_v2(stream, mode);
}

CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
    VGPU_ENTER(cuStreamEndCapture, Needs::Context);
    if (graph != nullptr)
        *graph = nullptr;
    return CUDA_ERROR_ILLEGAL_STATE;  // as for any stream that does not capture
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
    return cuStreamEndCapture(stream, graph);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    VGPU_ENTER(cuThreadExchangeStreamCaptureMode, Needs::Init);
    thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, current);
    return CUDA_SUCCESS;
}

namespace {

CUresult not_capturing(const Entry& entry, CUstream stream, CUstreamCaptureStatus* status) {
    if (status == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_of(entry, stream) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    VGPU_ENTER(cuStreamIsCapturing, Needs::Context);
    return not_capturing(entry, stream, status);
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
    return cuStreamIsCapturing(per_thread(stream), status);
}

// The outputs beyond the status are left alone when a stream does not capture.
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, size_t*) {
    VGPU_ENTER(cuStreamGetCaptureInfo, Needs::Context);
    return not_capturing(entry, stream, status);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** nodes, size_t* count) {
    return cuStreamGetCaptureInfo_v2(per_thread(stream), status, id, graph, nodes, count);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, const CUgraphEdgeData**, size_t*) {
    VGPU_ENTER(cuStreamGetCaptureInfo, Needs::Context);
    return not_capturing(entry, stream, status);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
    return cuStreamGetCaptureInfo_v3(per_thread(stream), status, id, graph, nodes, edges, count);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*) {
    VGPU_ENTER(cuStreamGetCaptureInfo, Needs::Context);
    return not_capturing(entry, stream, status);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
    return cuStreamGetCaptureInfo(per_thread(stream), status, id);
}
