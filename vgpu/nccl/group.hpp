// Group calls: collects a thread's calls between ncclGroupStart and ncclGroupEnd, and launches them together. A call
// outside a group is a group of its own.
#pragma once

#include <functional>
#include <vector>

#include <nccl.h>

#include "vgpu/nccl/communicator.hpp"
#include "vgpu/nccl/operation.hpp"

namespace vgpu::nccl {

// Making, splitting or finalizing a communicator: runs beside the others of its group.
struct Management {
    CommunicatorPtr made;       // the communicator that this makes; null if none
    CommunicatorPtr existing;   // the parent, or what is finalized; may be null
    ncclComm_t* out = nullptr;  // set to null where a blocking communicator could not be made
    std::function<ncclResult_t()> work;
};

ncclResult_t group_start();
ncclResult_t group_end();
void log_group();  // the one that the program ends next

// Where a call fails within a group, ncclGroupEnd gives that error too. Returns `result`.
ncclResult_t group_check(ncclResult_t result);

// ncclInProgress where a non-blocking communicator is concerned and this is not within a group.
ncclResult_t submit(Task task);
ncclResult_t submit(Management management);

}  // namespace vgpu::nccl
