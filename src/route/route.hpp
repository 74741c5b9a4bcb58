// Which carrier takes a call. Doors call take(); nothing else does.
#pragma once

#include "route/call.hpp"

namespace swy::route {

// Settles the route of a call, has the carrier run it, reports it, and returns MPI's code (0 or an error that has been
// through the owner's error handler). `real` is the real MPI function.
int take(const Call& call, Real real);

// The depth guard: true while this thread is inside a real MPI call made for the program, so that calls which MPI makes
// through its own symbols are not routed again.
bool inside();

}  // namespace swy::route
