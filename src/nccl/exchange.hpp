// The collectives that only move blocks between ranks, as one group of NCCL sends and receives: gather, scatter, the
// vector forms, the neighbourhood collectives. Only collectives.cpp uses this.
#pragma once

#include "call/call.hpp"
#include "call/reason.hpp"
#include "nccl/launch.hpp"

namespace swy::nccl {

// Determines what this rank sends, receives and copies. Parameters and result as those of prepare().
Reason plan(const Call& call, int rank, int size, Work& work);

ncclResult_t exchange(const Launch& launch);
ncclResult_t exchange(const Launch& launch, const std::vector<Block>& sends, const std::vector<Block>& receives);
ncclResult_t gather(const Launch& launch);
ncclResult_t scatter(const Launch& launch);
ncclResult_t allgatherv(const Launch& launch);

}  // namespace swy::nccl
