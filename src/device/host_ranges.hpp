// Where memory is the host's whatever CUDA does: the program's static data, the C library's heap, the main thread's
// stack. The driver need not be asked about it, which costs more than all else that a host call pays.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace swy::device {

// Found by find_host_ranges(); until then nothing lies in them. Each may be empty where the system does not tell.
struct HostRanges {
    std::atomic<std::uintptr_t> low_end{0};  // static data and heap are below, what is mapped is not: one comparison
    std::atomic<std::uintptr_t> static_begin{0}, static_bytes{0};
    std::atomic<std::uintptr_t> heap_begin{UINTPTR_MAX};  // to the program break, which moves
    std::atomic<std::uintptr_t> stack_end{0};             // from the stack pointer
};
extern HostRanges host_ranges;

// May be called by several threads, and while the dynamic linker's lock is held.
void find_host_ranges();

// The kernel keeps this much below a main thread's stack free of other mappings (its least distance of mmap_base from
// the stack is 128 MiB), so a stack pointer so close to the end is the main thread's.
inline constexpr std::uintptr_t kMainStack = std::uintptr_t{8} << 20;

// False says nothing.
inline bool surely_host(const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    if (address >= frame) {
        const std::uintptr_t end = host_ranges.stack_end.load(std::memory_order_relaxed);
        return address < end && end - frame < kMainStack;
    }
    if (address >= host_ranges.low_end.load(std::memory_order_relaxed))
        return false;
    if (address - host_ranges.static_begin.load(std::memory_order_relaxed) <
        host_ranges.static_bytes.load(std::memory_order_relaxed))
        return true;
    return address >= host_ranges.heap_begin.load(std::memory_order_relaxed) &&
           address < reinterpret_cast<std::uintptr_t>(sbrk(0));
}

}  // namespace swy::device
