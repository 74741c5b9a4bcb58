// The queries about capture of both CUDA versions, in one form. Only abi12.cpp, abi13.cpp and per_thread.cpp include
// it.
#pragma once

#include "vgpu/cudart/runtime.hpp"

// Headers of before CUDA 12.3 and 12.8 lack these.
typedef struct cudaGraphEdgeData_st cudaGraphEdgeData;
extern "C" cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);

namespace vgpu::cudart {

// A valid stream is never being captured, since no capture can begin; a capture's id, graph and edges are then left as
// they were.
cudaError_t capture_status(const char* function, cudaStream_t stream, cudaStreamCaptureStatus* status);

}  // namespace vgpu::cudart
