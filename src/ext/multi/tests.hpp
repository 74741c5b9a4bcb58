// What a process determines about its own part of a collective before it hears from the others. Only collective.cpp
// uses this.
#pragma once

#include <vector>

#include "call/reason.hpp"
#include "device/device.hpp"
#include "ext/multi/call.hpp"
#include "nccl/collectives.hpp"

namespace swy::multi {

struct Survey {
    bool device = false, host = false;  // whether there is data in such memory
};
Survey survey_of(const Kept& kept);

// Tells whether this process's slots can go over NCCL, each on a device of its own. kNone: they can, and `works` holds
// each one's part.
struct LocalTest {
    LocalTest(const Kept& kept, const SlotCounts& slots, int rank);

    Reason obstacle = Reason::kNone;
    std::vector<nccl::Work> works;

    std::vector<device::Location> locations() const;
    std::vector<int> ordinals() const;

  private:
    Reason prepare(const Kept& kept, const SlotCounts& slots, int rank);
};

}  // namespace swy::multi
