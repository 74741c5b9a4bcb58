// Ranks of a communicator as ranks of MPI_COMM_WORLD, by which control messages and pair communicators are addressed.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/state.hpp"

namespace swy::comm {

// Returns the process that `rank` names in point-to-point on the communicator: of the remote group on an
// intercommunicator. -1 for a rank that the communicator does not have, and for processes outside MPI_COMM_WORLD. The
// caller keeps two threads from asking at once about one communicator.
int world_rank(State& state, int rank);

// Returns all processes of a group of the communicator, by rank; -1 for those outside MPI_COMM_WORLD.
enum class Group : std::uint8_t { kOwn, kRemote };
std::vector<int> group_in_world(MPI_Comm comm, Group which);

}  // namespace swy::comm
