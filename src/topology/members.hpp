// The facts that the processes of a node exchange, and the node's table made of them, the same on all of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/devices.hpp"

namespace swy::topology {

struct Member {
    Cpus binding;                 // of the process
    std::vector<Device> devices;  // that it sees, by ordinal
};
std::string pack(const Member& member);
Member unpack(const std::string& text);

// `members` are by rank. The machine's GPUs become all those that any of them sees, identified by UUID.
NodeFacts facts_of(std::span<const Member> members, Machine& machine);

}  // namespace swy::topology
