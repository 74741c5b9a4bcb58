// Which of the node's GPUs suit which of its processes, as these decide together: for MPIX_Device_suggest and
// MPIX_Device_suggest_multi. And a message to the user where a job plainly leaves GPUs idle.
#pragma once

#include <mpi.h>

#include <span>
#include <vector>

#include "comm/state.hpp"
#include "nccl/communicator.hpp"

namespace swy::comm {

// Collective over an intracommunicator. Returns in `ordinals` the GPUs, as this process numbers them, that are its part
// when those of the node are divided among the communicator's processes there by the rule of src/topology: the one that
// suits it best, and the others in the order of a ring. None where the process sees none. Loads the driver when nobody
// has. Returns MPI's code.
int suggest(MPI_Comm comm, std::vector<int>& ordinals);

// Returns which of these devices of this process, by ordinal, is nearest to memory: for host memory by its NUMA node,
// the first of those that are equally near, or where that is not known; for device memory its own. An empty list is all
// that the process sees. MPI_UNDEFINED where there is none. Local.
int near(const void* buffer, std::span<const int> ordinals);

// Says once, on one rank of a node, that all ranks of the job there use one GPU while this process sees others. `group`
// has the communicator's members by rank; a communicator of fewer ranks than MPI_COMM_WORLD shows nothing.
void warn_of_idle_gpus(const State& state, const nccl::Group& group);

}  // namespace swy::comm
