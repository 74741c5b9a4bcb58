// What the processes of a node tell each other, and the node's facts made of it: the same on all of them.
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

// By rank. The machine's GPUs become all those that any of them sees, told apart by UUID.
NodeFacts facts_of(std::span<const Member> members, Machine& machine);

}  // namespace swy::topology
