// How this folder launches NCCL calls: one thread at a time, several calls as one group, and the steps of a collective.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "nccl/collectives.hpp"
#include "nccl/communicator.hpp"
#include "nccl/library.hpp"

namespace swy::nccl {

// NCCL forbids that two threads launch on one device at once (NCCL guide, "Thread safety").
inline std::mutex launch_mutex;

inline unsigned long groups_begun = 0;  // guarded by launch_mutex; the trace tells groups from single calls by it

// Makes several NCCL calls one group: NCCL then treats them as one operation, in which no order of the calls can
// deadlock.
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

// The state of all these members together (ncclResult_t): an error of any member, with `member` saying whose; otherwise
// ncclInProgress if one is under way; otherwise success.
int state_of(std::span<const std::shared_ptr<Communicator>> members, std::size_t& member);

// The steps of a collective on a stream. For each of its launches: what precedes it on the device, then NCCL's calls
// (ncclResult_t), which must have finished before the next launch is started. At last, what follows all launches. The
// texts are "" or the error.
std::size_t launches_of(const Work& work);
std::string before_launch(const Work& work, std::size_t launch, int ranks, device::Stream& device_stream);
int launch_collective(const Work& work, std::size_t launch, Communicator& communicator, device::Stream& device_stream);
std::string after_launches(const Work& work, device::Stream& device_stream);

// Makes the same launch for several members of this process as one group. Returns ncclResult_t.
int launch_together(std::span<const Work> works, std::size_t launch,
                    std::span<const std::shared_ptr<Communicator>> members, std::span<device::Stream> device_streams);

// The operands that are significant on this rank: what is sent and what is received into.
struct Ends {
    const Operand* send = nullptr;
    const Operand* recv = nullptr;
    bool in_place = false;
};
Ends ends_of(const Call& call, int rank);

// Records the location of `data` in `work`; returns an obstacle where it does not fit the location recorded before.
Reason take_location(const void* data, Work& work);

// The parameters of the functions that launch a collective.
struct Launch {
    const Work& work;
    Communicator& communicator;
    const Entries& nccl;
    const device::Stream& device_stream;

    ncclDataType_t type() const { return static_cast<ncclDataType_t>(work.type); }
    ncclRedOp_t op() const { return static_cast<ncclRedOp_t>(work.op); }
    cudaStream_t stream() const { return device_stream.stream(); }
};

}  // namespace swy::nccl
