// The size of a predefined type in a handful of instructions, for the path of host calls in a job with GPUs.
// src/fastpath uses this.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace swy::datatype {

// Recently used predefined types, each as handle and size in one 64-bit entry: user addresses have 48 bits, and the
// largest predefined type has 32 bytes. Handles of predefined types are never reused for other types, so an entry is
// always valid.
inline constexpr int kQuickSizes = 256;
[[gnu::visibility("hidden")]] extern std::array<std::atomic<std::uint64_t>, kQuickSizes> quick_sizes;
// The handles of those that have a size and no gap: MPI_DOUBLE_INT and some other pair types have a gap, which begins
// or ends within the length of an envelope.
[[gnu::visibility("hidden")]] extern std::array<std::atomic<std::uintptr_t>, kQuickSizes> quick_handles;

// The slot of a handle. Open MPI's predefined types are some 70 objects of 512 bytes side by side; those that the
// program names may lie together elsewhere.
inline std::size_t quick_slot(std::uintptr_t handle) {
    return (handle >> 9) % kQuickSizes;
}

// Returns false also for a type that has not been looked up yet, and true, with size 0, for a null pointer, whose error
// MPI reports.
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

// Has predefined_size() return `size` for the type from now on; returns it.
std::size_t remember_predefined(MPI_Datatype type, std::size_t size);

// Returns 0 for all types but predefined ones that have data, and for those that MPI_Type_create_f90_real and its like
// return until layout_of() has seen them. Handles are compared, and nothing behind them is looked at: `type` may be
// anything where MPI ignores the argument.
inline std::size_t predefined_size(MPI_Datatype type) {
    const std::size_t known = known_size(type);
    return known != 0 ? known : look_up_predefined_size(type);
}

// True for predefined types that have data and no gaps. False leaves it open.
inline bool known_predefined(MPI_Datatype type) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    return quick_handles[quick_slot(handle)].load(std::memory_order_relaxed) == handle;
}
inline bool predefined(MPI_Datatype type) {
    return known_predefined(type) || predefined_size(type) != 0;
}

}  // namespace swy::datatype
