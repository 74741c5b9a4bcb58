// What establish.cpp, which makes the NCCL communicators of MPI communicators, and places.cpp, which makes those with
// several members in a process, have in common. For these two alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "carrier/nccl/communicator.hpp"
#include "carrier/nccl/member.hpp"
#include "comm/control.hpp"
#include "comm/state.hpp"
#include "device/device.hpp"

namespace swy::comm {

// What is told of each device that is to be a member; sent as bytes.
struct Fact {
    carrier::nccl::Member member;
    std::int32_t nccl_version = 0;  // 0: no usable library
    std::uint8_t old_library = 0;
    std::uint8_t ranks_share_gpus = 0;  // NCCL_MULTI_RANK_GPU_ENABLE
    std::uint8_t broken = 0;            // the communicator held so far was aborted here
    std::uint8_t several_ids = 0;       // takes more than one for a communicator
    std::uint64_t gpu_model = 0;
};
static_assert(sizeof(Fact) == 48, "sent as bytes: no padding");

Fact own_fact(const device::Location& location, bool broken);

// The same on every rank, since every rank has the same facts.
Reason obstacle_in(const std::vector<Fact>& facts);

Undertaking draw_undertaking();

// A process says once what kept it from NCCL; the report counts the calls that suffered.
void complain(const State& state, const std::string& problem);

// By which the ranks tell each other of failures in what is launched on an NCCL communicator.
std::unique_ptr<carrier::nccl::Failures> launch_failures(const State& state, Undertaking what);

}  // namespace swy::comm
