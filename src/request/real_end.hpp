// How a real request that the library holds has completed. For operations, under the engine's lock.
#pragma once

#include <mpi.h>

#include "call/call.hpp"

namespace swy::request {

// Asks MPI, as MPI_Test does, whether `request` is complete; `code` is then what MPI reports for it. Calls no error
// handler: `owner` is the object whose handler MPI would call, or of kind kNone where errors return anyway.
bool has_ended(MPI_Request& request, const Owner& owner, MPI_Status& status, int& code);

}  // namespace swy::request
