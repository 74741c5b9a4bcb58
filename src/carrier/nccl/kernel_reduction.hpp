// Reductions that NCCL lacks (logical and bitwise operators, locations, complex products, numbers of 16 bits, and
// MPI_Scan and MPI_Exscan of anything): each rank gets one part of every rank's data, reduces that by kernels in the
// order of the ranks, and hands out the results. collectives.cpp alone uses this.
#pragma once

#include "carrier/nccl/launch.hpp"
#include "route/call.hpp"
#include "route/reason.hpp"

namespace swy::carrier::nccl {

// As prepare(). `otherwise` is why NCCL itself does not reduce this: the obstacle where kernels do not either.
Reason plan_reduction(const Call& call, Reason otherwise, int rank, int size, Work& work);

}  // namespace swy::carrier::nccl
