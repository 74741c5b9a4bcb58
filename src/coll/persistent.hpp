// Persistent collectives that may use NCCL. Their creation (MPI_Allreduce_init and so on) is ordered among the
// communicator's collectives and may wait for all ranks; their starts wait for no rank, and may come in another order
// on every rank (MPI 4.0 section 6.13).
#pragma once

#include "call/call.hpp"
#include "coll/agree_and_setup.hpp"
#include "coll/operands.hpp"
#include "comm/state.hpp"

namespace swy::coll {

// Agrees on whether NCCL can serve the request, as a blocking call would; where it cannot, that is final. Returns MPI's
// code, of an error that has been raised. Throws std::bad_alloc.
int agree_on_persistent(const Call& call, comm::State& comm, Presence presence, AgreedRoute& into);

// Must each start agree again, on NCCL or host memory? The answer is the same on all ranks.
bool starts_agree(const AgreedRoute& agreement, const comm::State& comm);

// If so: leaves an inactive request whose starts agree. `print` is the call's. Returns MPI's code. Throws
// std::bad_alloc.
int make_persistent(const Call& call, Real real, comm::State& comm, const Fingerprint& print);

}  // namespace swy::coll
