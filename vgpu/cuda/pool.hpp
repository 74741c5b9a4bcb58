// Memory pools: stream-ordered allocation.
#pragma once

#include <mutex>

#include "vgpu/core/allocations.hpp"
#include "vgpu/core/context.hpp"
#include "vgpu/core/process.hpp"

namespace vgpu {

// CUmemoryPool is a handle of it. Memory returns to the device as soon as it is freed: the pool counts bytes and keeps
// none.
struct MemoryPool {
    int device = 0;
    std::mutex lock;
    std::uint64_t used = 0;
    std::uint64_t used_high = 0;
    std::uint64_t release_threshold = 0;
    std::uint64_t max_size = 0;         // 0: the device's memory
    std::uint64_t accessible_from = 0;  // bit i: device i was given access with cuMemPoolSetAccess
    int reuse[3] = {1, 1,
                    1};  // follow event dependencies, opportunistic, internal dependencies: accepted, of no effect
};

// Returns whether kernels of a device may access the pool's memory; those of its own device always may.
inline bool reaches(MemoryPool& pool, int device) {
    const std::lock_guard guard(pool.lock);
    return device == pool.device || (pool.accessible_from >> device & 1) != 0;
}

// Tells whether kernels of the context may touch the memory. What cuIpcOpenMemHandle has opened is within reach of the
// context that has opened it, on whatever device it lies.
inline bool reaches(const Context& context, const Allocation& memory) {
    switch (memory.kind) {
        case MemoryKind::Pooled:
            return reaches(*memory.pool, context.device().ordinal);
        case MemoryKind::Imported:
            return memory.context == &context || context.reaches(devices()[memory.device]);
        case MemoryKind::Device:
            return context.reaches(devices()[memory.device]);
        default:
            return true;
    }
}

}  // namespace vgpu

namespace vgpu::cuda {

// Gives pooled memory back to its pool and device.
void release_pooled(const Allocation& allocation);

}  // namespace vgpu::cuda
