// How NCCL calls are launched, for this folder: one thread at a time, several calls as one operation, collectives.
#pragma once

#include <mutex>
#include <string>

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

// The steps of a collective on a lane, in this order: copies on the device, NCCL's calls (ncclResult_t), copies again.
// "" or what went wrong.
std::string copy_before(const Work& work, int ranks, device::Lane& lane);
int launch_collective(const Work& work, Communicator& communicator, const device::Lane& lane);
std::string copy_after(const Work& work, device::Lane& lane);

// What the functions that launch a collective get.
struct Launch {
    const Work& work;
    Communicator& communicator;
    const Entries& nccl;
    const device::Lane& lane;

    ncclDataType_t type() const { return static_cast<ncclDataType_t>(work.type); }
    ncclRedOp_t op() const { return static_cast<ncclRedOp_t>(work.op); }
    cudaStream_t stream() const { return lane.stream(); }
};

}  // namespace swy::carrier::nccl
