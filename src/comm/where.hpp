// Where something happened, in texts for users: the call, the rank that makes it, and on what.
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

#include "call/call.hpp"

namespace swy::comm {

// Returns "MPI_Recv on rank 0 of MPI_COMM_WORLD (2 ranks)", the call alone where the communicator was freed.
std::string where(CallId call, MPI_Comm comm);
std::string where(std::string_view call, MPI_Comm comm);

// The same for a communicator, a window or a file, which must exist; the call alone where there is none of these.
std::string where(CallId call, const Owner& owner);

// Open MPI says no more of some errors, which are none of the program's making, than MPI_ERR_OTHER or MPI_ERR_INTERN,
// or returns a code of its own, below 0, and calls no error handler. with_place() takes any code that a function of MPI
// has returned in a call, and returns one of the same class whose text tells where too, if it is one of these.
bool says_too_little(int code);
int with_place(CallId call, const Owner& owner, int code);

}  // namespace swy::comm
