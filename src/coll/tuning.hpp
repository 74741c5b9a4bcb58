// The number of bytes from which on a collective uses NCCL: SWITCHYARD_NCCL_THRESHOLD, or what a tuning file has for
// the call. All ranks use rank 0's table. It is in force on communicators of as many ranks as it was measured with
// whose set-up has shown the same GPU, NCCL and number of nodes (comm/tuned.hpp): all their ranks decide alike.
#pragma once

#include <cstddef>
#include <string>

#include "call/call.hpp"

namespace swy::coll {

// Shares rank 0's table. Collective over MPI_COMM_WORLD where SWITCHYARD_TUNING is set on rank 0. `problem` is what is
// wrong with the file, on rank 0; then no rank has a table. Sets `threshold` of call/job.hpp to the least that any call
// has. Returns MPI's code.
int share_tuning(std::string& problem);

std::size_t threshold_of(const Call& call);

// Returns, for the report, the file and what became of it; "" without one.
std::string tuning_account();

}  // namespace swy::coll
