// Calls with invalid arguments. They are passed to MPI before Switchyard posts anything, because an error that MPI
// raises goes through the program's error handler at once: the handler may call anything, and must not run under the
// engine's lock. Only calls that are not passed to MPI as they are get checked.
#pragma once

#include "call/call.hpp"

namespace swy::p2p {

// Tells whether Open MPI rejects an argument by its value alone.
bool has_invalid_argument(const Call& call);

// Has MPI raise the error, by the program's own call, and returns MPI's code. No device address is passed to MPI.
int left_to_mpi(const Call& call, Real real);

}  // namespace swy::p2p
