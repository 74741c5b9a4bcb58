// Copies of a given kind on the driver. copy.cpp (contiguous), copy_shaped.cpp and symbol.cpp use these.
#pragma once

#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

// A copy in the current context, by its kind. cudaMemcpyDefault lets the driver find out where each pointer lives.
cudaError_t copy_now(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t copy_on(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);

// Where the kind says that source and destination live, in the driver's words.
struct CopyEnds {
    CUmemorytype from;
    CUmemorytype to;
};
// False for a number that is no kind.
bool ends_of(cudaMemcpyKind kind, CopyEnds& ends);

}  // namespace vgpu::cudart
