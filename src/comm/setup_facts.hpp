// What the ranks tell each other of the devices for which an NCCL communicator is to be made, and what follows from it
// alike on all of them. For setup.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "call/reason.hpp"
#include "comm/tuned.hpp"
#include "device/device.hpp"
#include "nccl/communicator.hpp"

namespace swy::comm {

// A device that is to be a member; sent as bytes.
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

// Returns what keeps these devices from an NCCL communicator, or kNone.
Reason obstacle_in(const std::vector<Fact>& facts);

// Tells whether no member before this one lacks NCCL on the same host: one of each host says so.
bool is_first_without_nccl(const std::vector<Fact>& facts, int member);

Machine machine_in(const std::vector<Fact>& facts);

nccl::Group group_of(const std::vector<Fact>& facts);

}  // namespace swy::comm
