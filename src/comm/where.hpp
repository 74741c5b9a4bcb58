// Where something happened, in texts for users: the call, the rank that makes it, and on what.
#pragma once

#include <mpi.h>

#include <string>

#include "call/call.hpp"

namespace swy::comm {

// Returns "MPI_Recv on rank 0 of MPI_COMM_WORLD (2 ranks)", the call alone where the communicator was freed.
std::string where(CallId call, MPI_Comm comm);

// The same for a communicator, a window or a file, which must exist; the call alone where there is none of these.
std::string where(CallId call, const Owner& owner);

}  // namespace swy::comm
