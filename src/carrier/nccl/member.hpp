// This process as a member of groups of GPUs, in the form that every other member compares.
#pragma once

#include "carrier/nccl/communicator.hpp"

namespace swy::carrier::nccl {

// Tells hosts apart as NCCL does.
std::uint64_t host_here();

// This process with the device of that ordinal.
Member member_here(int ordinal);

// Does NCCL take a second rank on a GPU here (NCCL_MULTI_RANK_GPU_ENABLE)?
bool shares_gpus();

}  // namespace swy::carrier::nccl
