// Collectives on several buffers of each process. Only the extension's wrappers call this.
#pragma once

#include "ext/multi/call.hpp"

namespace swy::multi {

// Checks the arguments, exchanges with the other ranks what each one has, and has NCCL or host MPI make the collective:
// completely, or by a request where the call has one. Returns MPI's code of an error that has been raised already.
int collective(const ListCall& call);

}  // namespace swy::multi
