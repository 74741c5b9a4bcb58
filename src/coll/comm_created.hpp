// What follows when MPI has made an intracommunicator: an NCCL communicator for it, split off that of the communicator
// it was made of where that one has one already, or made at once with SWITCHYARD_EAGER. Every other communicator gets
// one on first use (comm/setup.hpp). The wrappers of calls that make communicators call this.
#pragma once

#include <mpi.h>

namespace swy::coll {

// Called by every rank of `parent`, whose members those of `made` are among; `made` is MPI_COMM_NULL where this rank is
// in none. With `parent` MPI_COMM_NULL it is called by the members of `made` alone. Returns MPI_SUCCESS, or the code of
// an MPI call that failed: the communicator exists whatever NCCL does.
int on_comm_created(MPI_Comm parent, MPI_Comm made);

// Called by every rank of `comm` that starts a duplicate of it without waiting (MPI_Comm_idup). Until that is complete
// Open MPI may make no other communicator of the same ranks: 4.1.4 mixes up the messages of the two and hangs.
void duplicates(MPI_Comm comm);

// With SWITCHYARD_EAGER, called by all ranks of an intracommunicator. Waits for NCCL. Returns MPI's code.
int make_eagerly(MPI_Comm comm);

}  // namespace swy::coll
