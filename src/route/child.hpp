// What follows when MPI has made an intracommunicator: an NCCL communicator for it, split off that of the communicator
// it was made of where that one carries device buffers already, or made at once with SWITCHYARD_EAGER. Everything else
// gets one on first use (comm/establish.hpp). The doors of calls that make communicators call this.
#pragma once

#include <mpi.h>

namespace swy::route {

// By every rank of `parent`, whose members those of `made` are among; MPI_COMM_NULL where this rank is in none. With
// `parent` MPI_COMM_NULL by the members of `made` alone. MPI_SUCCESS: the communicator is there whatever NCCL does.
int has_made(MPI_Comm parent, MPI_Comm made);

// Every rank of `comm` begins a duplicate of it that it does not wait for. Until that is there Open MPI may make no
// other communicator of the same ranks: 4.1.4 mixes up the messages of the two and hangs.
void duplicates(MPI_Comm comm);

// With SWITCHYARD_EAGER, by all ranks of an intracommunicator. Waits for NCCL. MPI's code.
int make_eagerly(MPI_Comm comm);

}  // namespace swy::route
