#include "vgpu/cuda/device_heap.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

#include "vgpu/core/allocations.hpp"
#include "vgpu/cuda/device_code.hpp"

namespace vgpu::cuda {
namespace {

constexpr std::size_t kLeastAlignment = 16;

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

struct Heaps {
    std::mutex lock;
    std::map<const Context*, std::unique_ptr<DeviceHeap>> all;
};

Heaps& heaps() {
    static auto& all = *new Heaps;
    return all;
}

}  // namespace

// A heap that the device has no room for is empty, so that every malloc returns a null pointer.
void DeviceHeap::begin() {
    begun_ = true;
    Allocation allocation;
    const std::size_t bytes = limit_of(context_, CU_LIMIT_MALLOC_HEAP_SIZE);
    if (bytes == 0 || context_.device().memory->allocate(bytes, allocation.block) != DeviceMemory::Result::Ok)
        return;
    allocation.address = allocation.block.address;
    allocation.alias = allocation.block.alias;
    allocation.bytes = bytes;
    allocation.device = context_.device().ordinal;
    allocation.context = &context_;
    allocations().add(allocation);
    free_.emplace(allocation.address, bytes);
}

std::uint64_t DeviceHeap::allocate(std::size_t bytes, std::size_t alignment) {
    const std::lock_guard guard(lock_);
    if (!begun_)
        begin();
    alignment = std::max(alignment, kLeastAlignment);
    for (auto block = free_.begin(); block != free_.end(); ++block) {
        const std::uint64_t address = block->first;
        const std::size_t size = block->second;
        const std::uint64_t start = rounded_up(address, alignment);
        const std::size_t before = start - address;
        if (bytes > size || before > size - bytes)
            continue;
        const std::size_t taken =
            std::min<std::size_t>(size - before, rounded_up(std::max<std::size_t>(bytes, 1), kLeastAlignment));
        free_.erase(block);
        if (before != 0)
            free_.emplace(address, before);
        if (size - before - taken != 0)
            free_.emplace(start + taken, size - before - taken);
        used_.emplace(start, taken);
        return start;
    }
    return 0;
}

bool DeviceHeap::release(std::uint64_t address) {
    const std::lock_guard guard(lock_);
    const auto block = used_.find(address);
    if (block == used_.end())
        return false;
    auto joined = free_.emplace(address, block->second).first;
    used_.erase(block);
    if (const auto next = std::next(joined); next != free_.end() && joined->first + joined->second == next->first) {
        joined->second += next->second;
        free_.erase(next);
    }
    if (joined != free_.begin())
        if (const auto previous = std::prev(joined); previous->first + previous->second == joined->first) {
            previous->second += joined->second;
            free_.erase(joined);
        }
    return true;
}

DeviceHeap& device_heap(Context& context) {
    const std::lock_guard guard(heaps().lock);
    auto& heap = heaps().all[&context];
    if (heap == nullptr)
        heap = std::make_unique<DeviceHeap>(context);
    return *heap;
}

bool has_device_heap(const Context& context) {
    const std::lock_guard guard(heaps().lock);
    return heaps().all.contains(&context);
}

void release_device_heap(const Context& context) {
    const std::lock_guard guard(heaps().lock);
    heaps().all.erase(&context);
}

}  // namespace vgpu::cuda
