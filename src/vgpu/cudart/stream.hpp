// What the two CUDA versions ask about capture, in one form. Only abi12.cpp and abi13.cpp call it.
#pragma once

#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

// A valid stream is never being captured, since no capture can begin; a capture's id, graph and edges are then left as
// they were.
cudaError_t capture_status(const char* function, cudaStream_t stream, cudaStreamCaptureStatus* status);

}  // namespace vgpu::cudart
