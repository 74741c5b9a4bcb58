// The collectives that move blocks between ranks and do nothing else, as one group of NCCL's sends and receives:
// gather, scatter, the vector forms, the neighbourhood ones. collectives.cpp alone uses this.
#pragma once

#include "carrier/nccl/launch.hpp"
#include "route/call.hpp"
#include "route/reason.hpp"

namespace swy::carrier::nccl {

// Works out what this rank sends, receives and copies. As prepare().
Reason plan(const Call& call, int rank, int size, Work& work);

ncclResult_t exchange(const Launch& launch);
ncclResult_t exchange(const Launch& launch, const std::vector<Block>& sends, const std::vector<Block>& receives);
ncclResult_t gather(const Launch& launch);
ncclResult_t scatter(const Launch& launch);
ncclResult_t allgatherv(const Launch& launch);

}  // namespace swy::carrier::nccl
