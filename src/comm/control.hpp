// Messages between the ranks of a job that no program sees: on a duplicate of MPI_COMM_WORLD that MPI_Init makes in a
// job with GPUs. Of three kinds, told apart by their tags: a rank's word that it has failed in something that the
// others are waiting for, the control messages of point-to-point, and the chunks of its staged payloads.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "comm/state.hpp"

namespace swy::comm {

// A common undertaking of a communicator's ranks, named by a number that its first rank drew and sent to all.
using Undertaking = std::uint64_t;

// Called by lifecycle; start_control() is collective over MPI_COMM_WORLD.
int start_control();
void stop_control();

// Errors on it return. MPI_COMM_NULL in a job without GPUs.
MPI_Comm control_communicator();
inline constexpr int kFailureTag = 1, kControlTag = 2, kHandleTag = 3, kFirstChunkTag = 16;

// Tells the other ranks of the communicator that this one has failed in the undertaking. Returns MPI's code.
int tell_failure(const State& state, Undertaking what);

// Has a rank told of its failure so far? Does not block.
bool failure_told(Undertaking what);

// Takes in the words of `others` ranks, so that none is left over: after all ranks know how many have failed.
void hear_out(Undertaking what, int others);

}  // namespace swy::comm
