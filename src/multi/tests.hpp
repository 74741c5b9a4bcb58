// What a process finds out about its own part of a collective before it hears of the others. For collective.cpp alone.
#pragma once

#include <vector>

#include "carrier/nccl/collectives.hpp"
#include "device/device.hpp"
#include "multi/call.hpp"
#include "route/reason.hpp"

namespace swy::multi {

struct Survey {
    bool device = false, host = false;  // is there data there?
};
Survey survey_of(const Kept& kept);

// Can this process's places go over NCCL, each on a device of its own? kNone: yes, and `works` holds each one's part.
struct LocalTest {
    LocalTest(const Kept& kept, const PlaceCounts& places, int rank);

    Reason obstacle = Reason::kNone;
    std::vector<carrier::nccl::Work> works;

    std::vector<device::Location> locations() const;
    std::vector<int> ordinals() const;

  private:
    Reason prepare(const Kept& kept, const PlaceCounts& places, int rank);
};

}  // namespace swy::multi
