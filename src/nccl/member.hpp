// This process as a member of groups of GPUs, in the form that every other member compares.
#pragma once

#include "nccl/communicator.hpp"

namespace swy::nccl {

// A hash of this host that tells hosts apart as NCCL does.
std::uint64_t host_here();

// Describes this process with the device `ordinal`.
Member member_here(int ordinal);

// Tells whether NCCL accepts a second rank on a GPU here (NCCL_MULTI_RANK_GPU_ENABLE).
bool shares_gpus();

}  // namespace swy::nccl
