// Ranks of a communicator as ranks of MPI_COMM_WORLD, by which control messages and lanes are addressed.
#pragma once

#include "comm/state.hpp"

namespace swy::comm {

// The process that `rank` names in point-to-point on the communicator: of the remote group on an intercommunicator. -1
// for a rank that the communicator does not have, and for processes outside MPI_COMM_WORLD. The caller keeps two
// threads from asking at once about one communicator.
int world_rank(State& state, int rank);

}  // namespace swy::comm
