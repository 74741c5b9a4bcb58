// The memory that device code takes by malloc: CUDA C++ Programming Guide, "Dynamic Global Memory Allocation".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "vgpu/core/context.hpp"
#include "vgpu/ptx/ptx.hpp"

namespace vgpu::cuda {

// One for each context: CU_LIMIT_MALLOC_HEAP_SIZE bytes of its device, taken at the first call. Blocks are found first
// fit, and one that is freed joins its free neighbours.
class DeviceHeap final : public ptx::Heap {
  public:
    explicit DeviceHeap(Context& context) : context_(context) {}

    std::uint64_t allocate(std::size_t bytes, std::size_t alignment) override;
    bool release(std::uint64_t address) override;

  private:
    void begin();

    Context& context_;
    std::mutex lock_;
    bool begun_ = false;
    std::map<std::uint64_t, std::size_t> free_, used_;  // sizes by address
};

// The context's heap, made on first asking.
DeviceHeap& device_heap(Context& context);

// Whether a kernel that could use the context's heap has been launched: its size is settled then.
bool has_device_heap(const Context& context);

// Forgets the heap of a context that has ended; its memory is freed with the context's.
void release_device_heap(const Context& context);

}  // namespace vgpu::cuda
