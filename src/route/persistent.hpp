// Persistent collectives that NCCL may carry. Their making is ordered among the communicator's collectives and may wait
// for all ranks; their starts wait for nobody, and may come in another order on every rank (MPI 4.0 section 6.13).
#pragma once

#include "comm/state.hpp"
#include "route/call.hpp"
#include "route/operands.hpp"
#include "route/settle.hpp"

namespace swy::route {

// Settles whether NCCL can carry it, as a call that blocks would: for good where it cannot. MPI's code, of an error
// that has been raised. Throws std::bad_alloc.
int settle_persistent(const Call& call, comm::State& comm, Presence presence, Settled& into);

// Must each start agree again, on NCCL or host memory? The same on all ranks.
bool starts_agree(const Settled& settled, const comm::State& comm);

// Then leaves an inactive request whose starts do. `print` is the call's. MPI's code. Throws std::bad_alloc.
int make_persistent(const Call& call, Real real, comm::State& comm, const Fingerprint& print);

}  // namespace swy::route
