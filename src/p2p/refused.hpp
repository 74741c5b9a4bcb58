// Calls whose arguments MPI refuses. They are left to MPI before anything of ours is posted, since what MPI raises goes
// through the program's error handler at once: that may call anything, and must not be called under the engine's lock.
// Asked for calls that MPI does not carry as they are.
#pragma once

#include "route/call.hpp"

namespace swy::p2p {

// Is there an argument that Open MPI refuses by its value alone?
bool refused(const Call& call);

// Has MPI say so, by the program's own call; MPI's code. No address of a device gets there.
int left_to_mpi(const Call& call, Real real);

}  // namespace swy::p2p
