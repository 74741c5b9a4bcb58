// What follows when MPI has made an intracommunicator: with SWITCHYARD_EAGER it gets its NCCL communicator at once.
// Otherwise it gets one on first use (comm/setup.hpp): programs duplicate communicators by the dozen, and each NCCL
// communicator takes device memory, threads and time. The wrappers of calls that make communicators call this.
#pragma once

#include <mpi.h>

namespace swy::coll {

// Called by the members of `made`; MPI_COMM_NULL is allowed. Waits for NCCL with SWITCHYARD_EAGER. Returns MPI_SUCCESS,
// or the code of an MPI call that failed: the communicator exists whatever NCCL does.
int on_comm_created(MPI_Comm made);

// Called by every rank of `comm` that starts a duplicate of it without waiting (MPI_Comm_idup). Until that is complete
// Open MPI may make no other communicator of the same ranks: 4.1.4 mixes up the messages of the two and hangs.
void duplicates(MPI_Comm comm);

// With SWITCHYARD_EAGER, called by all ranks of an intracommunicator. Waits for NCCL. Returns MPI's code.
int make_eagerly(MPI_Comm comm);

}  // namespace swy::coll
