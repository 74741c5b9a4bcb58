// Collectives on several buffers of each process. The doors of the extension call, nothing else does.
#pragma once

#include "multi/call.hpp"

namespace swy::multi {

// Checks the arguments, exchanges with the other ranks what each brings, and has NCCL or host MPI do it: completely, or
// from a request where the call has one. MPI's code, of an error that has been raised already.
int collective(const ListCall& call);

}  // namespace swy::multi
