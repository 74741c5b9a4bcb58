// What a door asks in a job with GPUs: host memory in blocks of predefined types passes with a look at each buffer and
// no more. What this adds to a call is counted by tests/bench/instructions.test. Only doors use it.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "datatype/quick.hpp"
#include "device/device.hpp"
#include "real.hpp"
#include "route/depth.hpp"
#include "route/gate.hpp"
#include "route/job.hpp"

namespace swy::route {

// Not a call that MPI makes itself.
inline bool outside_mpi() {
    return depth == 0;
}

// For a buffer of a plain type, whose data begins at its address.
inline bool on_host(const void* address) {
    return !device::on_device(address);
}
inline bool in_place_or_on_host(const void* address) {
    return address == MPI_IN_PLACE || on_host(address);
}
inline bool plain(MPI_Datatype type) {
    return datatype::predefined(type);
}

// A routed collective of a plain type that needs no agreement for its size, which is the same on all ranks.
inline bool small(MPI_Count count, std::size_t size) {
    return size != 0 && (!job_agrees || (count >= 0 && static_cast<std::size_t>(count) * size < threshold));
}
bool small(MPI_Count count, MPI_Datatype type);

// Predefined types that small() has been asked about, and how many elements of each are small: a comparison of two
// words for calls that come again. The first type keeps its place, since two words that change can be read in the
// middle.
struct SmallCount {
    std::atomic<std::uintptr_t> type;
    std::atomic<std::size_t> below;
};
[[gnu::visibility("hidden")]] extern std::array<SmallCount, datatype::kQuickSizes> small_counts;

// 0 says nothing. Of a count that is not valid MPI speaks, whichever way it gets there.
inline std::size_t small_below(MPI_Datatype type) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    const SmallCount& known = small_counts[datatype::quick_slot(handle)];
    return known.type.load(std::memory_order_acquire) == handle ? known.below.load(std::memory_order_relaxed) : 0;
}
inline bool surely_small(MPI_Count count, MPI_Datatype type) {
    return static_cast<std::size_t>(count) < small_below(type);
}

// The threshold may be another one: MPI starts.
void forget_small_counts();

// For as many elements a rank.
inline bool small_on_all(MPI_Count count, MPI_Datatype type, MPI_Comm comm) {
    if (!job_agrees || comm == MPI_COMM_NULL)
        return plain(type);
    int ranks = 0;
    real::Comm_size(comm, &ranks);
    return small(count * ranks, type);
}

}  // namespace swy::route
