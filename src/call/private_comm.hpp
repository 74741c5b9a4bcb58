// Communicators of this library that the program does not see.
#pragma once

#include <mpi.h>

namespace swy::call {

// Makes a communicator of the same ranks as an intracommunicator's in the same order, with MPI_ERRORS_RETURN;
// collective. Returns MPI's code.
int make_private_comm(MPI_Comm comm, MPI_Comm* made);

// Does the same, and gives it the process topology of `comm`, if that has one, for neighbourhood collectives.
int make_private_comm_with_topology(MPI_Comm comm, MPI_Comm* made);

// Makes an intercommunicator like `inter`, whose groups `merged` has one after the other: collective over both.
int make_private_intercomm(MPI_Comm inter, MPI_Comm merged, MPI_Comm* made);

}  // namespace swy::call
