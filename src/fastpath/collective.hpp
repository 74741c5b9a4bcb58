// What a wrapper asks inline in a job with GPUs: a call on host memory in blocks of predefined types takes the fast
// path to Open MPI after one check of each buffer. tests/bench/instructions.test counts what this adds to a call. Only
// wrappers use it.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "call/call.hpp"
#include "call/depth.hpp"
#include "call/job.hpp"
#include "datatype/quick.hpp"
#include "device/device.hpp"
#include "fastpath/driver_watch.hpp"
#include "real.hpp"

namespace swy::comm {
struct State;
}

namespace swy::fastpath {

// Tells whether the call comes from the program, not from inside MPI.
inline bool outside_mpi() {
    return call::depth == 0;
}

// For a buffer of a predefined type, whose data begins at its address.
inline bool on_host(const void* address) {
    return !device::on_device(address);
}
inline bool in_place_or_on_host(const void* address) {
    return address == MPI_IN_PLACE || on_host(address);
}
inline bool is_predefined(MPI_Datatype type) {
    return datatype::predefined(type);
}

// Tells whether a routed collective of a predefined type needs no agreement because of its size, which is the same on
// all ranks.
inline bool small(MPI_Count count, std::size_t size) {
    return size != 0 &&
           (!call::job_agrees || (count >= 0 && static_cast<std::size_t>(count) * size < call::agreed_from &&
                                  call::merged_communicators.load(std::memory_order_relaxed) == 0));
}
bool small(MPI_Count count, MPI_Datatype type);

// Predefined types that small() has been asked about, with the number of elements below which a count of each is small:
// repeated calls need one comparison of two machine words. The first type keeps its entry, since two words that change
// could be read half changed.
struct SmallCount {
    std::atomic<std::uintptr_t> type;
    std::atomic<std::size_t> below;
};
[[gnu::visibility("hidden")]] extern std::array<SmallCount, datatype::kQuickSizes> small_counts;

// Returns 0 where nothing is known of the type. MPI itself reports an invalid count, whichever way it gets there.
inline std::size_t small_below(MPI_Datatype type) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    const SmallCount& known = small_counts[datatype::quick_slot(handle)];
    return known.type.load(std::memory_order_acquire) == handle ? known.below.load(std::memory_order_relaxed) : 0;
}
inline bool known_small(MPI_Count count, MPI_Datatype type) {
    return static_cast<std::size_t>(count) < small_below(type);
}

// Forgets all entries: when MPI starts, since the threshold may have changed, and when there is the first merged
// communicator, as long as which none is remembered.
void forget_small_counts();

// Tells whether every block of an operand begins in memory that is known to be the host's, without asking the driver;
// false leaves it open. `comm` is the state of the call's communicator.
bool known_host(const Call& call, const Operand& operand, const comm::State& comm);

// Of a collective in which no rank knows how much the others pass: tells whether the ranks leave this call out of those
// that they agree on (comm/agreement_interval.hpp), and all of the program's buffers are known host memory. The call
// has been counted then, and is Open MPI's.
bool left_out(const Call& call);

// The same as small() for `count` elements of each rank.
inline bool small_on_all(MPI_Count count, MPI_Datatype type, MPI_Comm comm) {
    if (!call::job_agrees || comm == MPI_COMM_NULL)
        return is_predefined(type);
    int ranks = 0;
    real::Comm_size(comm, &ranks);
    return small(count * ranks, type);
}

}  // namespace swy::fastpath
