// What setup.cpp, which makes the NCCL communicators of MPI communicators, and slots_setup.cpp, which makes those with
// several members in a process, have in common. For these two alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "device/device.hpp"
#include "nccl/communicator.hpp"
#include "nccl/member.hpp"

namespace swy::comm {

// What the ranks tell each other of a device that is to be a member; sent as bytes.
struct Fact {
    nccl::Member member;
    std::int32_t nccl_version = 0;  // 0: no usable library
    std::uint8_t old_library = 0;
    std::uint8_t ranks_share_gpus = 0;  // NCCL_MULTI_RANK_GPU_ENABLE
    std::uint8_t broken = 0;            // the communicator held so far was aborted here
    std::uint8_t several_ids = 0;       // its NCCL takes several unique ids for a communicator
    std::uint64_t gpu_model = 0;
};
static_assert(sizeof(Fact) == 48, "sent as bytes: no padding");

Fact own_fact(const device::Location& location, bool broken);

// Returns what keeps these devices from an NCCL communicator, or kNone. The same on every rank, since every rank has
// the same facts.
Reason obstacle_in(const std::vector<Fact>& facts);

OperationId draw_operation_id();

// Says once in a process what kept it from NCCL; the report counts the calls that suffered.
void complain(const State& state, const std::string& problem);

// Makes what the ranks use to tell each other of failures in what is launched on an NCCL communicator, under the id
// `what`.
std::unique_ptr<nccl::Failures> launch_failures(const State& state, OperationId what);

}  // namespace swy::comm
