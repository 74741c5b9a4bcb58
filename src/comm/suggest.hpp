// Which of the node's GPUs suit which of its processes, settled between them: MPIX_Device_suggest, and a word to the
// user where a job plainly leaves GPUs idle.
#pragma once

#include "carrier/nccl/communicator.hpp"
#include "comm/state.hpp"

namespace swy::comm {

// Collective over an intracommunicator. The ordinal, in this process, of the GPU that suits it by the rule of
// src/topology among the communicator's processes on this node; MPI_UNDEFINED where the process sees none. Loads the
// driver when nobody has. Returns MPI's code.
int suggest(MPI_Comm comm, int& ordinal);

// Says once, on one rank of a node, that all ranks of the job there use one GPU while this process sees others. `group`
// has the communicator's members by rank; a communicator of fewer ranks than MPI_COMM_WORLD shows nothing.
void warn_of_idle_gpus(const State& state, const carrier::nccl::Group& group);

}  // namespace swy::comm
