// What follows when MPI has made an intracommunicator in a job with GPUs: it gets a launch order at once, with a
// private communicator, which MPI makes only while all ranks wait: a call that does not block could not
// (docs/decisions/007-a-private-communicator-each.md). Its NCCL communicator it gets on first use
// (comm/collective_setup.hpp), or now with SWITCHYARD_EAGER: programs duplicate communicators by the dozen, and each
// NCCL communicator takes device memory, threads and time. The wrappers of calls that make communicators call this.
#pragma once

#include <mpi.h>

namespace swy::coll {

// Called by the members of `made`; MPI_COMM_NULL is allowed. Returns MPI_SUCCESS, or the code of an MPI call that
// failed: the communicator exists whatever NCCL does.
int on_comm_created(MPI_Comm made);

// Called by every rank of `comm` that starts a duplicate of it without waiting (MPI_Comm_idup). Until that is complete
// Open MPI may make no other communicator of the same ranks: 4.1.4 mixes up the messages of the two and hangs.
void duplicates(MPI_Comm comm);

// The same for a communicator that MPI has made before, MPI_COMM_WORLD.
int prepare(MPI_Comm comm);

}  // namespace swy::coll
