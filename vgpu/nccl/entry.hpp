// The begin of every exported function: whether the simulated version (VGPU_NCCL_VERSION) has it, and whether
// VGPU_FAULTS has a fault for this call.
#pragma once

#include <nccl.h>

#include "vgpu/nccl/communicator.hpp"

#define VGPU_NCCL_API extern "C" __attribute__((visibility("default")))
// pncclX is the same function, as profiling libraries that define ncclX expect.
#define VGPU_NCCL_ALIAS(result, name, ...) VGPU_NCCL_API result p##name(__VA_ARGS__) __attribute__((alias(#name)))

namespace vgpu::nccl {

struct Entry {
    ncclResult_t result = ncclSuccess;  // other than success: return it
    bool hang = false;                  // the call is accepted and its operation never completes
};

// `since` is the NCCL version code that brought the function.
Entry enter(const char* function, int since = 0);

// For a function without asynchronous work: a hang blocks the calling thread.
ncclResult_t enter_at_once(const char* function, int since = 0);

// NCCL's check of the communicator argument: ncclInvalidArgument with a warning for one that is not alive.
ncclResult_t communicator_of(ncclComm_t handle, const char* function, CommunicatorPtr& out);
ncclResult_t not_null(const void* pointer, const char* function, const char* argument);

// Waits until the communicator is abandoned: the effect of a hang while it is being made.
ncclResult_t wait_until_abandoned(const Communicator& communicator);

}  // namespace vgpu::nccl
