// Streams and host functions.
#include "vgpu/cudart/stream.hpp"

#include <memory>

using namespace vgpu::cudart;

namespace {

// cudaStreamAddCallback's function takes a cudaError_t where the driver's takes a CUresult.
struct Callback {
    cudaStreamCallback_t function;
    void* data;
};

void CUDA_CB run_callback(CUstream stream, CUresult status, void* packed) {
    const std::unique_ptr<Callback> callback(static_cast<Callback*>(packed));
    callback->function(stream, runtime_error(status), callback->data);
}

}  // namespace

namespace vgpu::cudart {

cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                         size_t* count) {
    return api("cudaStreamGetCaptureInfo", Needs::kContext, [&] {
        cuuint64_t number = 0;
        const CUresult result =
            cuStreamGetCaptureInfo_v3(stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &number, graph, nodes,
                                      reinterpret_cast<const CUgraphEdgeData**>(edges), count);
        if (result == CUDA_SUCCESS && id != nullptr && *status == cudaStreamCaptureStatusActive)
            *id = number;
        return result;
    });
}

cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                size_t count, unsigned flags) {
    return api("cudaStreamUpdateCaptureDependencies", Needs::kContext, [&] {
        return cuStreamUpdateCaptureDependencies_v2(stream, nodes, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                                    count, flags);
    });
}

}  // namespace vgpu::cudart

VGPU_CUDART_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return api("cudaStreamCreate", Needs::kContext, [&] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}

VGPU_CUDART_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return api("cudaStreamCreateWithFlags", Needs::kContext, [&] { return cuStreamCreate(stream, flags); });
}

VGPU_CUDART_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    return api("cudaStreamCreateWithPriority", Needs::kContext,
               [&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

VGPU_CUDART_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return api("cudaStreamDestroy", Needs::kContext, [&] { return cuStreamDestroy(stream); });
}

VGPU_CUDART_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return api("cudaStreamQuery", Needs::kContext, [&] { return cuStreamQuery(stream); });
}

VGPU_CUDART_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return api("cudaStreamSynchronize", Needs::kContext, [&] { return cuStreamSynchronize(stream); });
}

VGPU_CUDART_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return api_on_stream("cudaStreamWaitEvent", stream, [&] { return cuStreamWaitEvent(stream, event, flags); });
}

VGPU_CUDART_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    return api("cudaStreamGetPriority", Needs::kContext, [&] { return cuStreamGetPriority(stream, priority); });
}

VGPU_CUDART_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    return api("cudaStreamGetFlags", Needs::kContext, [&] { return cuStreamGetFlags(stream, flags); });
}

VGPU_CUDART_API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
    return api("cudaStreamGetId", Needs::kContext, [&] { return cuStreamGetId(stream, id); });
}

VGPU_CUDART_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
    return api("cudaStreamGetDevice", Needs::kContext, [&]() -> cudaError_t {
        if (device == nullptr)
            return cudaErrorInvalidValue;
        CUdevice handle = 0;
        const CUresult result = cuStreamGetDevice(stream, &handle);
        if (result == CUDA_SUCCESS)
            *device = handle;
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                                  unsigned flags) {
    return api_on_stream("cudaStreamAddCallback", stream, [&]() -> cudaError_t {
        if (function == nullptr)
            return cudaErrorInvalidValue;
        auto packed = std::make_unique<Callback>(Callback{function, data});
        const CUresult result = cuStreamAddCallback(stream, run_callback, packed.get(), flags);
        if (result == CUDA_SUCCESS)
            packed.release();  // run_callback owns it now
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return api_on_stream("cudaLaunchHostFunc", stream, [&] { return cuLaunchHostFunc(stream, function, data); });
}

VGPU_CUDART_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t bytes, unsigned flags) {
    return api_on_stream("cudaStreamAttachMemAsync", stream,
                         [&] { return cuStreamAttachMemAsync(stream, device_address(pointer), bytes, flags); });
}

VGPU_CUDART_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return api("cudaStreamIsCapturing", Needs::kContext,
               [&] { return cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)); });
}

VGPU_CUDART_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return api("cudaStreamBeginCapture", Needs::kContext,
               [&] { return cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)); });
}

VGPU_CUDART_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                          const cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                                          size_t count, cudaStreamCaptureMode mode) {
    return api("cudaStreamBeginCaptureToGraph", Needs::kContext, [&] {
        return cuStreamBeginCaptureToGraph(stream, graph, nodes, reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                                           static_cast<CUstreamCaptureMode>(mode));
    });
}

VGPU_CUDART_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    return api("cudaStreamEndCapture", Needs::kContext, [&] { return cuStreamEndCapture(stream, graph); });
}

VGPU_CUDART_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    return api("cudaThreadExchangeStreamCaptureMode", Needs::kContext,
               [&] { return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}
