// Facts of the job that all its ranks share since MPI_Init. lifecycle.cpp sets them, the router reads them.
#pragma once

#include <cstddef>

namespace swy::route {

// Some node of MPI_COMM_WORLD has a GPU driver: collectives above the threshold agree on their route.
[[gnu::visibility("hidden")]] extern bool job_agrees;

// The least number of bytes that any collective may take over NCCL: SWITCHYARD_NCCL_THRESHOLD of the job's first rank,
// or less where a tuning file says so for some call (tuning.hpp).
[[gnu::visibility("hidden")]] extern std::size_t threshold;

}  // namespace swy::route
