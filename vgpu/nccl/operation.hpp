// Operations on streams: the calls of a group on one communicator become one launch, which runs on a stream's thread
// when it is first in both the stream and the family's order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cuda.h>
#include <nccl.h>

#include "vgpu/nccl/communicator.hpp"

namespace vgpu::nccl {

// One call of the program.
struct Task {
    CommunicatorPtr communicator;
    Call call;
    const void* send = nullptr;
    void* recv = nullptr;
    Operator op;  // for kPreMulSum
    CUstream stream = nullptr;
    bool hang = false;  // VGPU_FAULTS: never completes
};

// Puts the tasks of one communicator, in the order of the calls, onto their streams. Collectives run one after another
// and before the sends and receives, which run all at once.
ncclResult_t launch(std::vector<Task> tasks);

// Returns whether every send of a rank to itself in the group has its receive, as NCCL requires.
ncclResult_t check_own_transfers(const std::vector<Task>& tasks);

}  // namespace vgpu::nccl
