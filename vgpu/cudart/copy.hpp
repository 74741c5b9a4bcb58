// Copies of a given kind on the driver. copy.cpp (contiguous), copy_shaped.cpp and symbol.cpp use these.
#pragma once

#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

// A copy in the current context, by its kind. cudaMemcpyDefault lets the driver find out where each pointer lives.
cudaError_t copy_now(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t copy_on(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);

// cudaMemcpyBatchAsync. `attributes` are the driver's, which the runtime's are equal to, byte by byte.
cudaError_t copy_batch(void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes,
                       size_t* starts, size_t attributes_count, cudaStream_t stream);

// The driver's memory types of source and destination, as the kind states them.
struct CopyEnds {
    CUmemorytype from;
    CUmemorytype to;
};
// False for a number that is no kind.
bool ends_of(cudaMemcpyKind kind, CopyEnds& ends);

}  // namespace vgpu::cudart
