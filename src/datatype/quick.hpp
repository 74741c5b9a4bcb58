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
inline constexpr int kQuickSizes = 64;
extern std::array<std::atomic<std::uint64_t>, kQuickSizes> quick_sizes;

std::size_t look_up_predefined_size(MPI_Datatype type);

// 0 for all but predefined types that have data.
inline std::size_t predefined_size(MPI_Datatype type) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    // Open MPI's predefined types are objects of some 500 bytes side by side.
    const std::uint64_t entry = quick_sizes[(handle >> 9) % kQuickSizes].load(std::memory_order_relaxed);
    if (entry >> 16 == handle) [[likely]]
        return entry & 0xffff;
    return look_up_predefined_size(type);
}

}  // namespace swy::datatype
