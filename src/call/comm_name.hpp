// How texts for users name a communicator.
#pragma once

#include <mpi.h>

#include <string>

namespace swy::call {

// Returns the name that the program or MPI has given to a communicator that exists, or words that say that it has none.
std::string comm_name(MPI_Comm comm);

}  // namespace swy::call
