// Reductions that NCCL lacks (logical and bitwise operators, locations, complex products, 16-bit numbers, and MPI_Scan
// and MPI_Exscan of any type): each rank receives one part of every rank's data, reduces it with kernels in rank order,
// and sends the results to the ranks. Only collectives.cpp uses this.
#pragma once

#include "call/call.hpp"
#include "call/reason.hpp"
#include "nccl/launch.hpp"

namespace swy::nccl {

// As prepare(). `otherwise` is why NCCL itself does not reduce this; it is returned where the kernels cannot either.
Reason plan_reduction(const Call& call, Reason otherwise, int rank, int size, Work& work);

}  // namespace swy::nccl
