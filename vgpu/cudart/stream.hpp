// The functions about capture that CUDA 12 and 13 have in different forms, in one form. Only abi12.cpp, abi13.cpp,
// stream.cpp and per_thread.cpp include it.
#pragma once

#include "vgpu/cudart/runtime.hpp"

// Headers of before CUDA 12.3 and 12.8 lack these.
typedef struct cudaGraphEdgeData_st cudaGraphEdgeData;
extern "C" cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);
extern "C" cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                     const cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                                     size_t count, cudaStreamCaptureMode mode);

namespace vgpu::cudart {

// What is not asked for is null.
cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph = nullptr, const cudaGraphNode_t** nodes = nullptr,
                         const cudaGraphEdgeData** edges = nullptr, size_t* count = nullptr);
cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                size_t count, unsigned flags);

}  // namespace vgpu::cudart
