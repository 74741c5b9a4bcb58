// The _ptsz and _ptds forms, which code built with --default-stream per-thread calls: stream 0 is the thread's own
// stream there.
#include "vgpu/cudart/stream.hpp"

using namespace vgpu::cudart;

// Defines a form that calls the one without suffix; `arguments` passes the stream through per_thread().
#define VGPU_CUDART_PTSZ(name, parameters, arguments)    \
    VGPU_CUDART_API cudaError_t name##_ptsz parameters { \
        return name arguments;                           \
    }

// A synchronous function has no stream to name: its asynchronous form runs on the thread's stream, which is then waited
// for.
#define VGPU_CUDART_PTDS(name, parameters, asynchronous)             \
    VGPU_CUDART_API cudaError_t name##_ptds parameters {             \
        const cudaError_t started = asynchronous;                    \
        return started != cudaSuccess ? started : wait_for_thread(); \
    }

namespace {

cudaError_t wait_for_thread() {
    return remember(runtime_error(cuStreamSynchronize(cudaStreamPerThread)));
}

}  // namespace

VGPU_CUDART_PTSZ(cudaMemcpyAsync, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
                 (to, from, bytes, kind, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemcpy2DAsync,
                 (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (to, to_pitch, from, from_pitch, width, height, kind, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* parameters, cudaStream_t stream),
                 (parameters, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemcpy3DPeerAsync, (const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream),
                 (parameters, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemcpyToSymbolAsync,
                 (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                  cudaStream_t stream),
                 (symbol, from, bytes, offset, kind, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemcpyFromSymbolAsync,
                 (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
                 (to, symbol, bytes, offset, kind, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemsetAsync, (void* to, int value, size_t bytes, cudaStream_t stream),
                 (to, value, bytes, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemset2DAsync,
                 (void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
                 (to, pitch, value, width, height, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMemset3DAsync, (cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream),
                 (to, value, extent, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaStreamQuery, (cudaStream_t stream), (per_thread(stream)))
VGPU_CUDART_PTSZ(cudaStreamSynchronize, (cudaStream_t stream), (per_thread(stream)))
VGPU_CUDART_PTSZ(cudaStreamGetDevice, (cudaStream_t stream, int* device), (per_thread(stream), device))
VGPU_CUDART_PTSZ(cudaStreamGetFlags, (cudaStream_t stream, unsigned* flags), (per_thread(stream), flags))
VGPU_CUDART_PTSZ(cudaStreamGetId, (cudaStream_t stream, unsigned long long* id), (per_thread(stream), id))
VGPU_CUDART_PTSZ(cudaStreamGetPriority, (cudaStream_t stream, int* priority), (per_thread(stream), priority))
VGPU_CUDART_PTSZ(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                 (per_thread(stream), event, flags))
VGPU_CUDART_PTSZ(cudaStreamAddCallback,
                 (cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags),
                 (per_thread(stream), function, data, flags))
VGPU_CUDART_PTSZ(cudaStreamAttachMemAsync, (cudaStream_t stream, void* pointer, size_t bytes, unsigned flags),
                 (per_thread(stream), pointer, bytes, flags))
VGPU_CUDART_PTSZ(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                 (per_thread(stream), status))
VGPU_CUDART_PTSZ(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode), (per_thread(stream), mode))
VGPU_CUDART_PTSZ(cudaStreamBeginCaptureToGraph,
                 (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                  size_t count, cudaStreamCaptureMode mode),
                 (per_thread(stream), graph, nodes, edges, count, mode))
VGPU_CUDART_PTSZ(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph), (per_thread(stream), graph))
VGPU_CUDART_PTSZ(cudaGraphLaunch, (cudaGraphExec_t executable, cudaStream_t stream), (executable, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaGraphUpload, (cudaGraphExec_t executable, cudaStream_t stream), (executable, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaGraphInstantiateWithParams,
                 (cudaGraphExec_t * executable, cudaGraph_t graph, cudaGraphInstantiateParams* how),
                 (executable, graph, how))
VGPU_CUDART_PTSZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                 (event, per_thread(stream), flags))
VGPU_CUDART_PTSZ(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void* data),
                 (per_thread(stream), function, data))
VGPU_CUDART_PTSZ(cudaMallocAsync, (void** pointer, size_t bytes, cudaStream_t stream),
                 (pointer, bytes, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaMallocFromPoolAsync, (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                 (pointer, bytes, pool, per_thread(stream)))
VGPU_CUDART_PTSZ(cudaFreeAsync, (void* pointer, cudaStream_t stream), (pointer, per_thread(stream)))

VGPU_CUDART_PTDS(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                 cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemcpy2D,
                 (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind),
                 cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemcpy3D, (const cudaMemcpy3DParms* parameters),
                 cudaMemcpy3DAsync(parameters, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemcpy3DPeer, (const cudaMemcpy3DPeerParms* parameters),
                 cudaMemcpy3DPeerAsync(parameters, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemcpyToSymbol,
                 (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
                 cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemcpyFromSymbol, (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
                 cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemset, (void* to, int value, size_t bytes),
                 cudaMemsetAsync(to, value, bytes, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemset2D, (void* to, size_t pitch, int value, size_t width, size_t height),
                 cudaMemset2DAsync(to, pitch, value, width, height, cudaStreamPerThread))
VGPU_CUDART_PTDS(cudaMemset3D, (cudaPitchedPtr to, int value, cudaExtent extent),
                 cudaMemset3DAsync(to, value, extent, cudaStreamPerThread))
