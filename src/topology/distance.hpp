// The distance of a rank from a GPU, as text for users and as a number that can be added up, and the distance between
// two GPUs. For this folder alone.
#pragma once

#include "topology/choice.hpp"

namespace swy::topology {

inline constexpr int kFarthest = 9999;  // no distance is larger

struct Distance {
    Reach reach = Reach::kUnknown;
    int value = 0;  // 0 for all GPUs when the rank is not bound
};

bool is_bound(const NodeFacts& facts, const RankFacts& rank);
Distance distance(const NodeFacts& facts, const RankFacts& rank, int gpu);

// The link that data between two GPUs has to pass, the nearest first.
enum class Between : std::uint8_t {
    kOneGpu,  // nothing: slices of one
    kLink,    // NVLink
    kSwitch,  // switches of PCI
    kBridge,  // their host bridge (root complex)
    kLocal,   // as far as the one's local cores are from the other: Reach
    kCache,
    kNuma,
    kUnknown,
    kPackage,
    kMachine
};
inline constexpr std::size_t kBetween = 10;

struct Step {
    Between between = Between::kUnknown;
    std::int64_t finer = 0;  // what its links lack to the node's fastest, or bridges, or latency: less is shorter
};
Step step(const NodeFacts& facts, int one, int other);  // either way the same
std::int64_t length(const Step& step);                  // as a number that can be added up

}  // namespace swy::topology
