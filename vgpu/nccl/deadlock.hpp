// Finding calls that wait for each other in a circle, with VGPU_STRICT=1 (ungrouped sends to each other, collectives in
// different orders). A rank that has waited a while sends a probe to each peer it waits for; a rank that itself waits,
// and that sees no answer to the sender's call, adds its own call and passes the probe on. One that comes back has gone
// round. Only ranks that are in an operation answer, so a peer that is merely late is never taken for part of a circle.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "vgpu/nccl/exchange.hpp"
#include "vgpu/nccl/family.hpp"

namespace vgpu::nccl {

class DeadlockSearch {
  public:
    DeadlockSearch(Family& family, const Step& step, std::uint64_t run) : family_(family), step_(step), run_(run) {}

    // Called when nothing has moved for a while. Returns a description of the circle once one is found, else nothing.
    std::string search();
    void arrived(const std::string& probe) { probes_.push_back(probe); }
    // Something moved: what was known of waiting is out of date.
    void forget() { probes_.clear(); }

  private:
    struct Hop {
        std::int32_t rank = 0;  // in the family
        Call call;
    };
    struct Probe {
        std::uint64_t run = 0;  // of the rank that began it
        std::vector<Hop> hops;

        std::string pack() const;
        static Probe unpack(const std::string& bytes);
    };

    bool waited_for_by(int peer) const;
    void pass_on(Probe probe);
    static std::string describe(const Probe& probe);

    Family& family_;
    const Step& step_;
    std::uint64_t run_;
    std::vector<std::string> probes_;
    std::set<std::pair<std::int32_t, std::uint64_t>> passed_;
};

}  // namespace vgpu::nccl
