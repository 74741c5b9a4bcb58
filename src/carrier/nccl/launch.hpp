// How NCCL calls are launched, for this folder: one thread at a time, several calls as one operation, collectives.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "carrier/nccl/collectives.hpp"
#include "carrier/nccl/communicator.hpp"
#include "carrier/nccl/library.hpp"

namespace swy::carrier::nccl {

// NCCL forbids that two threads launch on one device at once (NCCL guide, "Thread safety").
inline std::mutex launch_mutex;

inline unsigned long groups_begun = 0;  // under the mutex; for the trace, which tells them from single calls

// Makes NCCL calls one group: NCCL then sees them as one operation, in which no order can deadlock.
class GroupCall {
  public:
    explicit GroupCall(const Entries& nccl) : nccl_(nccl), first_(nccl.GroupStart()) { ++groups_begun; }
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

// The state of all these together (ncclResult_t): an error of any, and whose, else what is under way, else success.
int state_of(std::span<const std::shared_ptr<Communicator>> members, std::size_t& member);

// The steps of a collective on a lane: for each of its launches what comes before it on the device and NCCL's calls
// (ncclResult_t), which are through when the next launch is begun; then what comes after all. "" or what went wrong.
std::size_t launches_of(const Work& work);
std::string before_launch(const Work& work, std::size_t launch, int ranks, device::Lane& lane);
int launch_collective(const Work& work, std::size_t launch, Communicator& communicator, device::Lane& lane);
std::string after_launches(const Work& work, device::Lane& lane);

// The same launch of several members of this process, as one group. ncclResult_t.
int launch_together(std::span<const Work> works, std::size_t launch,
                    std::span<const std::shared_ptr<Communicator>> members, std::span<device::Lane> lanes);

// The operands that count on this rank: what is sent and what is received into.
struct Ends {
    const Operand* send = nullptr;
    const Operand* recv = nullptr;
    bool in_place = false;
};
Ends ends_of(const Call& call, int rank);

// Adds the location of data to what is known of the work's; an obstacle where both do not fit together.
Reason take_location(const void* data, Work& work);

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
