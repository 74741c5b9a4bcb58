// What a communicator has lost, in a job whose MPI survives the loss of processes: ULFM's, as Open MPI 5 has it with
// `mpirun --with-ft ulfm` (https://docs.open-mpi.org, "User-Level Fault Mitigation"). In any other job the launcher
// ends all processes when one has failed, and nothing is asked here.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "call/call.hpp"

namespace swy::error {

extern bool survives;  // is this process in such a job? From MPI_Init on

// Called by init/lifecycle.cpp in MPI_Init.
void start_survival();

// ULFM's class of what has happened to a communicator, MPI_SUCCESS where nothing has, and what that was as a clause:
// "rank 2 has failed", "the communicator has been revoked".
struct Loss {
    int mpi_class = MPI_SUCCESS;
    std::string what;
    explicit operator bool() const { return mpi_class != MPI_SUCCESS; }
};

// Asks MPI, which answers without communication. `comm` lives.
Loss loss_of_survivor(MPI_Comm comm);
inline Loss loss_of(MPI_Comm comm) {
    return survives ? loss_of_survivor(comm) : Loss{};
}
bool is_revoked(MPI_Comm comm);
void revoke(MPI_Comm comm);

// Returns the failed ranks of a communicator, of the remote group where it is an intercommunicator, in order.
std::vector<int> failed_ranks(MPI_Comm comm);

// Takes note of all failures in `comm` that MPI knows of, so that receives from any rank work again on it (ULFM's
// MPIX_Comm_ack_failed).
void acknowledge_failures(MPI_Comm comm);

// Returns `comm`, or, where processes may be lost, a new communicator of those that are left of it: collective over
// them (ULFM's MPIX_Comm_shrink). MPI_COMM_NULL where MPI cannot make it.
MPI_Comm left_of(MPI_Comm comm);

// The class of an error of Switchyard's own on this object: where its communicator has lost something, that is why, and
// ULFM's class says so to the program; else `mpi_class`.
int class_of(const Owner& owner, int mpi_class);

}  // namespace swy::error
