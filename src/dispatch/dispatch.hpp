// Which transport a call takes. Wrappers call dispatch(), and so do calls on several buffers that are made of messages.
#pragma once

#include "call/call.hpp"

namespace swy::dispatch {

// Decides the route of a call, has the carrier run it, reports it, and returns MPI's code (0 or an error that has been
// through the owner's error handler). `real` is the real MPI function.
int dispatch(const Call& call, Real real);

}  // namespace swy::dispatch
