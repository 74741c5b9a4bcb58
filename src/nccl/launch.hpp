// What the files that make collectives of NCCL's calls have in common, and what collectives.cpp has of exchange.cpp and
// kernel_reduction.cpp.
#pragma once

#include "call/call.hpp"
#include "call/reason.hpp"
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

// exchange.cpp: the collectives that only move blocks between ranks, as one group of NCCL sends and receives: gather,
// scatter, the vector forms, the neighbourhood collectives.
//
// Determines what this rank sends, receives and copies. Parameters and result as those of prepare().
Reason plan(const Call& call, int rank, int size, Work& work);

// The same for all collectives between the groups of an intercommunicator, reductions too: `rank` and `size` are the
// merged communicator's (comm/merged.hpp).
Reason plan_between_groups(const Call& call, int rank, int size, Work& work);

ncclResult_t exchange(const Launch& launch);
ncclResult_t exchange(const Launch& launch, const std::vector<Block>& sends, const std::vector<Block>& receives);
ncclResult_t gather(const Launch& launch);
ncclResult_t scatter(const Launch& launch);
ncclResult_t allgatherv(const Launch& launch);

// kernel_reduction.cpp: reductions that NCCL lacks (logical and bitwise operators, locations, complex products, 16-bit
// numbers, and MPI_Scan and MPI_Exscan of any type): each rank receives one part of every rank's data, reduces it with
// kernels in rank order, and sends the results to the ranks.
//
// As prepare(). `otherwise` is why NCCL itself does not reduce this; it is returned where the kernels cannot either.
Reason plan_reduction(const Call& call, Reason otherwise, int rank, int size, Work& work);

// Both groups of an intercommunicator in its merged communicator.
struct TwoGroups {
    int own = 0, others = 0;              // numbers of ranks
    int me = 0;                           // among the own ones
    int first_own = 0, first_others = 0;  // ranks in the merged communicator
};

// The same between groups, for all operators: each group reduces its own data, a part on each rank, and sends the parts
// to the ranks of the other group that get the result. In MPI_Reduce_scatter no rank knows the other group's counts:
// each rank there gets an equal part, and its group hands that out.
Reason plan_reduction_between_groups(const Call& call, const TwoGroups& groups, Work& work);

}  // namespace swy::nccl
