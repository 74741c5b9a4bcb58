// Address ranges that are host memory whatever CUDA does: the program's static data, the C library's heap, the main
// thread's stack. The driver need not be asked about them; asking costs more than everything else in a host call.
#pragma once

#include <cstdint>

namespace swy::device {

// The kernel keeps this much below the end of the main thread's stack free of other mappings (the least distance of
// mmap_base from there is 128 MiB), whether the stack has grown that far or not.
inline constexpr std::uintptr_t kMainStack = std::uintptr_t{8} << 20;

// Set once by find_host_ranges(); until then nothing lies in them. Each may be empty where the system does not tell.
// Not atomic, so that they are compared directly in memory.
struct HostRanges {
    std::uintptr_t heap_begin = UINTPTR_MAX;
    void* const* heap_end;  // where the C library keeps the program break, which moves; never null
    std::uintptr_t static_begin = 0, static_bytes = 0;
    std::uintptr_t stack_begin = 0, stack_bytes = 0;  // the last kMainStack bytes of the stack
};
[[gnu::visibility("hidden")]] extern HostRanges host_ranges;

// Determines the ranges. Called before a driver is found or the driver watch opens, one of which precedes every query
// below. May be called by several threads, and while the dynamic linker's lock is held.
void find_host_ranges();

// True for addresses in the main thread's stack or the static data. False leaves it open where the memory lies.
[[gnu::always_inline]] inline bool known_stack_or_static(std::uintptr_t address) {
    return address - host_ranges.stack_begin < host_ranges.stack_bytes ||
           address - host_ranges.static_begin < host_ranges.static_bytes;
}

[[gnu::always_inline]] inline bool known_host_address(std::uintptr_t address, std::uintptr_t heap_end) {
    return (address >= host_ranges.heap_begin && address < heap_end) || known_stack_or_static(address);
}

// True where all of the pointers are known to be host memory; false leaves it open. Inline: a call would cost a wrapper
// more than the comparisons do.
template <typename... Pointers>
[[gnu::always_inline]] inline bool known_host(Pointers... pointers) {
    const auto end = reinterpret_cast<std::uintptr_t>(__atomic_load_n(host_ranges.heap_end, __ATOMIC_RELAXED));
    return (known_host_address(reinterpret_cast<std::uintptr_t>(pointers), end) && ...);
}

// True where both addresses, and with them all between, lie in one of the ranges.
inline bool known_host_range(std::uintptr_t first, std::uintptr_t last) {
    const HostRanges& ranges = host_ranges;
    const auto end = reinterpret_cast<std::uintptr_t>(__atomic_load_n(ranges.heap_end, __ATOMIC_RELAXED));
    const auto both = [&](std::uintptr_t begin, std::uintptr_t bytes) {
        return first - begin < bytes && last - begin < bytes;
    };
    return (first >= ranges.heap_begin && last < end) || both(ranges.stack_begin, ranges.stack_bytes) ||
           both(ranges.static_begin, ranges.static_bytes);
}

}  // namespace swy::device
