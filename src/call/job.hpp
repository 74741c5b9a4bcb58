// Facts of the job that all its ranks share since MPI_Init, which sets them (src/init, src/coll/tuning.cpp).
#pragma once

#include <atomic>
#include <cstddef>

namespace swy::call {

// True where some node of MPI_COMM_WORLD has a GPU driver: collectives above the threshold then agree on their route.
[[gnu::visibility("hidden")]] inline bool job_agrees = false;

// The least number of bytes with which any collective may use NCCL: SWITCHYARD_NCCL_THRESHOLD of the job's first rank,
// or less where a tuning file says so for some call (coll/tuning.hpp).
[[gnu::visibility("hidden")]] inline std::size_t threshold = 0;

// True where SWITCHYARD_TIMEOUT sets a limit. The ranks then agree on every collective with data, whatever its size and
// route: an agreement can be given up, and MPI's own call cannot.
[[gnu::visibility("hidden")]] inline bool limited = false;

// The least number of bytes on which the ranks of a collective agree, if each of them knows its size: `threshold`, or 0
// where the wait is limited.
[[gnu::visibility("hidden")]] inline std::size_t agreed_from = 0;

// The number of intercommunicators in this process on which collectives agree (comm/merged.hpp). While there is one, a
// call's size alone does not tell whether its ranks agree: between groups some ranks do not know it.
[[gnu::visibility("hidden")]] inline std::atomic<int> merged_communicators = 0;

}  // namespace swy::call
