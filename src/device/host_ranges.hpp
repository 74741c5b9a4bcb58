// Where memory is the host's whatever CUDA does: the program's static data, the C library's heap, the main thread's
// stack. The driver need not be asked about it, which costs more than all else that a host call pays.
#pragma once

#include <cstdint>

namespace swy::device {

// The kernel keeps this much below the end of the main thread's stack free of other mappings (its least distance of
// mmap_base from there is 128 MiB), whether the stack has grown so far or not.
inline constexpr std::uintptr_t kMainStack = std::uintptr_t{8} << 20;

// Found by find_host_ranges(), once; until then nothing lies in them. Each may be empty where the system does not tell.
// Not atomic, so that they are compared where they lie.
struct HostRanges {
    std::uintptr_t heap_begin = UINTPTR_MAX;
    void* const* heap_end;  // where the C library has the program break, which moves; never null
    std::uintptr_t static_begin = 0, static_bytes = 0;
    std::uintptr_t stack_begin = 0, stack_bytes = 0;  // the last kMainStack bytes of it
};
[[gnu::visibility("hidden")]] extern HostRanges host_ranges;

// Before a driver is found or the gate opens: who asks below has seen one of these. May be called by several threads,
// and while the dynamic linker's lock is held.
void find_host_ranges();

// False says nothing.
[[gnu::always_inline]] inline bool surely_stack_or_static(std::uintptr_t address) {
    return address - host_ranges.stack_begin < host_ranges.stack_bytes ||
           address - host_ranges.static_begin < host_ranges.static_bytes;
}

[[gnu::always_inline]] inline bool surely_host_address(std::uintptr_t address, std::uintptr_t heap_end) {
    return (address >= host_ranges.heap_begin && address < heap_end) || surely_stack_or_static(address);
}

// Of all of them. Inline: a call would cost a door more than the comparisons do.
template <typename... Pointers>
[[gnu::always_inline]] inline bool surely_host(Pointers... pointers) {
    const auto end = reinterpret_cast<std::uintptr_t>(__atomic_load_n(host_ranges.heap_end, __ATOMIC_RELAXED));
    return (surely_host_address(reinterpret_cast<std::uintptr_t>(pointers), end) && ...);
}

}  // namespace swy::device
