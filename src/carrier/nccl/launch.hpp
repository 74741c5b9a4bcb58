// How NCCL calls are launched, for this folder: one thread at a time, several calls as one operation, collectives.
#pragma once

#include <mutex>

#include "carrier/nccl/collectives.hpp"
#include "carrier/nccl/communicator.hpp"
#include "carrier/nccl/library.hpp"

namespace swy::carrier::nccl {

// NCCL forbids that two threads launch on one device at once (NCCL guide, "Thread safety").
inline std::mutex launch_mutex;

// Makes NCCL calls one group: NCCL then sees them as one operation, in which no order can deadlock.
class GroupCall {
  public:
    explicit GroupCall(const Entries& nccl) : nccl_(nccl), first_(nccl.GroupStart()) {}
    void add(ncclResult_t result) {
        if (first_ == ncclSuccess && result != ncclInProgress)
            first_ = result;
    }
    ncclResult_t end() {
        const ncclResult_t ended = nccl_.GroupEnd();
        return first_ == ncclSuccess ? ended : first_;
    }

  private:
    const Entries& nccl_;
    ncclResult_t first_;
};

// What the functions that launch a collective get.
struct Launch {
    const Work& work;
    Communicator& communicator;
    const Entries& nccl;

    ncclDataType_t type() const { return static_cast<ncclDataType_t>(work.type); }
    ncclRedOp_t op() const { return static_cast<ncclRedOp_t>(work.op); }
    cudaStream_t stream() const { return communicator.lane().stream(); }
};

}  // namespace swy::carrier::nccl
