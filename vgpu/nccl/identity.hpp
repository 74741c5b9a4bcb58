// The identity of a rank: host, process, device. And the 128-bit names under which ranks find each other.
#pragma once

#include <array>
#include <cstdint>

namespace vgpu::nccl {

using Name = std::array<std::uint64_t, 2>;

Name random_name();
// A name that all who know `name` derive alike; a different one for every `purpose` and `number`.
Name derive(const Name& name, std::uint64_t purpose, std::uint64_t number);

// The same for all processes of a host: NCCL_HOSTID where set, else host name and boot id, as NCCL has it.
std::uint64_t host_hash();

}  // namespace vgpu::nccl
