// CUDA IPC within libcuda.
#pragma once

#include "vgpu/core/allocations.hpp"

namespace vgpu::cuda {

// Unmaps memory that another process exported.
void release_imported(const Allocation& allocation);

// A file of another process, through /proc; -1 when that process is gone, is another by now or may not be looked into.
int open_file_of_process(int process, std::uint64_t start_time, int file);
// When a process started, in clock ticks since boot: with its number it names a process for good. 0: there is none.
std::uint64_t start_time_of(int process);

}  // namespace vgpu::cuda
