// Attributes of pointers, and hints for managed memory. The entry points over these differ between CUDA 12 and 13:
// only abi12.cpp and abi13.cpp call them.
#pragma once

#include "vgpu/cudart/runtime.hpp"

namespace vgpu::cudart {

struct PointerFacts {
    cudaMemoryType type = cudaMemoryTypeUnregistered;
    int device = cudaInvalidDeviceId;
    void* device_pointer = nullptr;
    void* host_pointer = nullptr;
};

// Any pointer has an answer: one that CUDA does not know is unregistered host memory, itself its host pointer
// (driver_types.h says that this is not checked).
cudaError_t find_pointer(PointerFacts& facts, const void* pointer);

// cudaMemPrefetchAsync and cudaMemAdvise, in CUDA 13's form.
cudaError_t prefetch(const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags, cudaStream_t stream);
cudaError_t advise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location);

}  // namespace vgpu::cudart
