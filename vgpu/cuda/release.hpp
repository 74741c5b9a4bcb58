// The end of a context, and how memory of each kind is freed.
#pragma once

#include "vgpu/cuda/api.hpp"

namespace vgpu::cuda {

// The range that cuCtxGetStreamPriorityRange returns on current GPUs.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

// Waits for the context's work, then frees its memory, streams, events and modules.
void release_context(Context& context);

// Frees the memory of an entry that has been removed from the table.
void release_allocation(const Allocation& allocation);

// Pinned and managed memory: pages of the process itself.
char* allocate_host_pages(std::size_t bytes);
void release_host_pages(const Allocation& allocation);

void release_modules(Context& context);

}  // namespace vgpu::cuda
