// From how many bytes on a collective takes NCCL: SWITCHYARD_NCCL_THRESHOLD, or what a tuning file has for the call. A
// table is rank 0's on all ranks. It is in force on communicators of as many ranks as it was measured with whose set-up
// has shown the same GPU, NCCL and number of nodes (comm/tuned.hpp): all their ranks decide alike.
#pragma once

#include <cstddef>
#include <string>

#include "route/call.hpp"

namespace swy::route {

// Collective over MPI_COMM_WORLD where SWITCHYARD_TUNING is set on rank 0. `problem` is what is wrong with the file, on
// rank 0, which then has no table, nor have the others. Sets `threshold` of job.hpp to the least that any call has.
int share_tuning(std::string& problem);

std::size_t threshold_of(const Call& call);

// For the report: the file and what became of it; "" without one.
std::string tuning_account();

}  // namespace swy::route
