// The router's way into point-to-point: calls that the table calls matched. Nothing else takes it.
#pragma once

#include "route/call.hpp"

namespace swy::p2p {

// Carries the call, which Call::matching describes, and reports it. `real` is the real MPI function. MPI's code.
int take(const Call& call, Real real);

}  // namespace swy::p2p
