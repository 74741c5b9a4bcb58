// The merged communicator of an intercommunicator: a private intracommunicator of both groups, on which the ranks of
// its collectives agree, and which has their launch order and their NCCL communicator.
#pragma once

#include "comm/state.hpp"

namespace swy::comm {

// Makes it, and sets state.merged. The group whose rank 0 is lower in MPI_COMM_WORLD comes first in it. Collective over
// the intercommunicator, which spans no jobs. Returns MPI's code.
int merge(State& state);

// Frees it, if there is one, with the state of its intercommunicator. Local.
void end_merged(State& state);

}  // namespace swy::comm
