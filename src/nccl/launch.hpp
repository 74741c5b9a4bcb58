// What the files that make collectives of NCCL's calls have in common.
#pragma once

#include "call/call.hpp"
#include "nccl/collectives.hpp"
#include "nccl/library.hpp"

namespace swy::nccl {

// The operands that are significant on this rank: what is sent and what is received into.
struct Ends {
    const Operand* send = nullptr;
    const Operand* recv = nullptr;
    bool in_place = false;
};
Ends ends_of(const Call& call, int rank);

// Records the location of `data` in `work`; returns an obstacle where it does not fit the location recorded before.
Reason take_location(const void* data, Work& work);

// The parameters of the functions that make NCCL's calls for one member of a communicator.
struct Launch {
    const Work& work;
    ncclComm_t comm;
    int rank, size;
    const Entries& nccl;
    cudaStream_t stream;

    ncclDataType_t type() const { return static_cast<ncclDataType_t>(work.type); }
    ncclRedOp_t op() const { return static_cast<ncclRedOp_t>(work.op); }
};

}  // namespace swy::nccl
