#include "vgpu/core/device_memory.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace vgpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargePage = 2u << 20;
constexpr std::size_t kSegment = 64u << 20;  // address space is taken in steps: 16 GiB at once would slow valgrind down

// Device addresses are requested far from heap, stack and libraries, so that two comparisons identify most host
// pointers.
std::atomic<std::uintptr_t> g_next_hint{0x300000000000ull};
std::atomic<std::uintptr_t> g_lowest{~std::uintptr_t{0}};
std::atomic<std::uintptr_t> g_highest{0};

void widen(std::uintptr_t begin, std::uintptr_t end) {
    std::uintptr_t low = g_lowest.load();
    while (begin < low && !g_lowest.compare_exchange_weak(low, begin)) {
    }
    std::uintptr_t high = g_highest.load();
    while (end > high && !g_highest.compare_exchange_weak(high, end)) {
    }
}

// Reserves addresses without access, aligned to `alignment` (a power of two, at least 2 MiB).
std::uintptr_t reserve_addresses(std::size_t bytes, std::size_t alignment) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const std::uintptr_t step = bytes + alignment + kLargePage;
    const std::uintptr_t hint = (g_next_hint.fetch_add(step) + alignment - 1) / alignment * alignment;
    void* memory = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE, kFlags, -1, 0);
    if (memory != MAP_FAILED && reinterpret_cast<std::uintptr_t>(memory) == hint) {
        widen(hint, hint + bytes);
        return hint;
    }
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    memory =
        mmap(nullptr, bytes + alignment, PROT_NONE, kFlags, -1, 0);  // valgrind keeps programs out of the hint's region
    if (memory == MAP_FAILED)
        return 0;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t aligned = (begin + alignment - 1) / alignment * alignment;
    if (aligned > begin)
        munmap(memory, aligned - begin);
    if (begin + alignment > aligned)
        munmap(reinterpret_cast<void*>(aligned + bytes), begin + alignment - aligned);
    widen(aligned, aligned + bytes);
    return aligned;
}

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

}  // namespace

bool may_be_device_address(std::uintptr_t address) {
    return address >= g_lowest.load(std::memory_order_relaxed) && address < g_highest.load(std::memory_order_relaxed);
}

MappedRange::MappedRange(MappedRange&& other) noexcept {
    *this = std::move(other);
}

MappedRange& MappedRange::operator=(MappedRange&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(alias_, other.alias_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedRange::~MappedRange() {
    reset();
}

void MappedRange::reset() {
    if (address_ != 0)
        munmap(reinterpret_cast<void*>(address_), bytes_);
    if (alias_ != nullptr)
        munmap(alias_, bytes_);
    address_ = 0;
    alias_ = nullptr;
    bytes_ = 0;
}

bool MappedRange::reserve(std::size_t bytes, std::size_t alignment) {
    reset();
    bytes_ = bytes;
    void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED)
        alias_ = static_cast<char*>(memory);
    address_ = alias_ == nullptr ? 0 : reserve_addresses(bytes, std::max(alignment, kLargePage));
    if (address_ == 0)
        reset();
    return address_ != 0;
}

bool MappedRange::map(int file, std::uint64_t offset, std::size_t bytes) {
    if (!reserve(bytes, kLargePage))
        return false;
    void* memory = mmap(alias_, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
                        static_cast<off_t>(offset));
    if (memory == MAP_FAILED) {
        reset();
        return false;
    }
    madvise(alias_, bytes, MADV_DONTDUMP);  // a core file holds no GPU's memory either
    return true;
}

bool DeviceMemory::add_segment(std::size_t bytes) {
    if (file_ < 0)
        file_ = memfd_create("vgpu-memory", MFD_CLOEXEC);
    const std::size_t size = std::max(kSegment, round_up(bytes, kLargePage));
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(file_bytes_ + size)) != 0)
        return false;
    auto segment = std::make_unique<Segment>();
    if (!segment->range.map(file_, file_bytes_, size))
        return false;
    segment->file_offset = file_bytes_;
    segment->holes[0] = size;
    file_bytes_ += size;
    segments_.push_back(std::move(segment));
    return true;
}

bool DeviceMemory::take(Segment& segment, std::size_t bytes, DeviceBlock& block) {
    for (auto hole = segment.holes.begin(); hole != segment.holes.end(); ++hole) {
        const auto [offset, size] = *hole;
        if (size < bytes)
            continue;
        segment.holes.erase(hole);
        if (size > bytes)
            segment.holes[offset + bytes] = size - bytes;
        block = {segment.range.address() + offset, segment.range.alias() + offset, bytes, segment.file_offset + offset};
        return true;
    }
    return false;
}

DeviceMemory::Result DeviceMemory::allocate(std::size_t bytes, DeviceBlock& block) {
    if (bytes > ledger_.limit())
        return Result::OutOfMemory;
    bytes = round_up(bytes, kGranularity);
    if (!ledger_.charge(bytes))
        return Result::OutOfMemory;
    const std::lock_guard guard(lock_);
    for (const auto& segment : segments_)
        if (take(*segment, bytes, block))
            return Result::Ok;
    if (add_segment(bytes) && take(*segments_.back(), bytes, block))
        return Result::Ok;
    ledger_.release(bytes);
    return Result::OutOfMemory;
}

void DeviceMemory::free(const DeviceBlock& block) {
    {
        const std::lock_guard guard(lock_);
        const auto owner = std::find_if(segments_.begin(), segments_.end(), [&](const auto& s) {
            return block.address >= s->range.address() && block.address < s->range.address() + s->range.bytes();
        });
        Segment& segment = **owner;
        std::size_t offset = block.address - segment.range.address();
        std::size_t size = block.bytes;
        auto next = segment.holes.lower_bound(offset);
        if (next != segment.holes.end() && next->first == offset + size) {
            size += next->second;
            next = segment.holes.erase(next);
        }
        if (next != segment.holes.begin()) {
            const auto previous = std::prev(next);
            if (previous->first + previous->second == offset) {
                offset = previous->first;
                size += previous->second;
                segment.holes.erase(previous);
            }
        }
        segment.holes[offset] = size;
        // The host's memory goes back at once: all whole pages that the hole now covers, as far as this block touches
        // them.
        const std::uint64_t hole = segment.file_offset + offset;
        const std::uint64_t first = std::max(round_up(hole, kPage), block.file_offset / kPage * kPage);
        const std::uint64_t last =
            std::min((hole + size) / kPage * kPage, round_up(block.file_offset + block.bytes, kPage));
        if (last > first)
            fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                      static_cast<off_t>(last - first));
        if (size == segment.range.bytes() && size > kSegment)
            segments_.erase(owner);
    }
    ledger_.release(block.bytes);
}

}  // namespace vgpu
