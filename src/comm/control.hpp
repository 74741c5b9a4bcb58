// Messages between the ranks of a job that no program sees: on a duplicate of MPI_COMM_WORLD that MPI_Init makes in a
// job with GPUs. Of three kinds, told apart by their tags: a rank's word that it has failed in something that the
// others are waiting for, or is waiting for them, the control messages of point-to-point, and the chunks of its staged
// payloads.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "comm/state.hpp"

namespace swy::comm {

// A common undertaking of a communicator's ranks, named by a number that all of them know: the making of an NCCL
// communicator, or all that is launched on one.
using Undertaking = std::uint64_t;

// Called by lifecycle; start_control() is collective over MPI_COMM_WORLD.
int start_control();
void stop_control();

// Errors on it return. MPI_COMM_NULL in a job without GPUs.
MPI_Comm control_communicator();
inline constexpr int kFailureTag = 1, kControlTag = 2, kHandleTag = 3, kFirstChunkTag = 16;

// The communicator's ranks as ranks of MPI_COMM_WORLD, which are those of the control communicator.
std::vector<int> ranks_in_world(const State& state);

// Tells the other ranks, named as in MPI_COMM_WORLD, that this one has failed in the undertaking, and why; `rank` is
// its own name for those who hear it. Does not block. Returns MPI's code.
int tell_failure(const std::vector<int>& world, int rank, Undertaking what, const std::string& why);

// Takes in the words that have come. Does not block, but asks MPI.
void hear_failures();

// Has a rank told of its failure, as far as this one has heard? The first to do so, where it is wanted.
struct Failure {
    int rank = 0;
    std::string why;
};
bool failure_told(Undertaking what, Failure* first = nullptr);

// The same for a rank that has waited long in the undertaking, and whose words have been heard: for the text of an
// error, so the oldest of many are forgotten.
int tell_waiting(const std::vector<int>& world, int rank, Undertaking what);
std::vector<int> ranks_waiting(Undertaking what);

// Hears the words of `others` ranks, so that none is left over: after all ranks know how many have failed.
void hear_out(Undertaking what, int others);

// Nobody will ask again.
void forget_failures(Undertaking what);

}  // namespace swy::comm
