// The size of a predefined type in a handful of instructions, for the path of host calls in a job with GPUs. The router
// asks.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace swy::datatype {

// Predefined types seen lately, handle and size in one word each: user addresses have 48 bits, the largest predefined
// type 32 bytes. Handles of predefined types are never used again for others, so an entry is right for ever.
inline constexpr int kQuickSizes = 256;
[[gnu::visibility("hidden")]] extern std::array<std::atomic<std::uint64_t>, kQuickSizes> quick_sizes;
// Those that have a size and no gap: MPI_DOUBLE_INT and some other pairs have one, which begins or ends within the
// length of an envelope.
[[gnu::visibility("hidden")]] extern std::array<std::atomic<std::uintptr_t>, kQuickSizes> quick_handles;

// Open MPI's predefined types are some 70 objects of 512 bytes side by side; those that the program names may lie
// together elsewhere.
inline std::size_t quick_slot(std::uintptr_t handle) {
    return (handle >> 9) % kQuickSizes;
}

// False also for what has not been looked up yet, and true for a null pointer, of no bytes, which is MPI's to refuse.
inline bool size_is_known(MPI_Datatype type, std::size_t& size) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    const std::uint64_t entry = quick_sizes[quick_slot(handle)].load(std::memory_order_relaxed);
    size = entry & 0xffff;
    return entry >> 16 == handle;
}
inline std::size_t known_size(MPI_Datatype type) {
    std::size_t size = 0;
    return size_is_known(type, size) ? size : 0;
}

std::size_t look_up_predefined_size(MPI_Datatype type);

// 0 for all but predefined types that have data.
inline std::size_t predefined_size(MPI_Datatype type) {
    const std::size_t known = known_size(type);
    return known != 0 ? known : look_up_predefined_size(type);
}

// And without gaps. False says nothing.
inline bool surely_predefined(MPI_Datatype type) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    return quick_handles[quick_slot(handle)].load(std::memory_order_relaxed) == handle;
}
inline bool predefined(MPI_Datatype type) {
    return surely_predefined(type) || predefined_size(type) != 0;
}

}  // namespace swy::datatype
