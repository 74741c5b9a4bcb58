#include "topology/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "topology/distance.hpp"

namespace swy::topology {

namespace {

std::string where(Reach reach) {
    switch (reach) {
        case Reach::kLocal:
            return "local to its cores";
        case Reach::kCache:
            return "under the same L3 cache as its cores";
        case Reach::kNuma:
            return "on the NUMA node of its cores";
        case Reach::kPackage:
            return "on another NUMA node of its package";
        case Reach::kMachine:
            return "on another package than its cores";
        case Reach::kUnknown:
            break;
    }
    return "at an unknown distance (the topology does not say which cores are near this GPU)";
}

// Returns whether the rank sees a nearer GPU, which other ranks got.
bool nearer_exists(const NodeFacts& facts, const RankFacts& rank, const Choice& choice) {
    const int own = distance(facts, rank, choice.gpu).value;
    return std::any_of(rank.visible.begin(), rank.visible.end(),
                       [&](int gpu) { return distance(facts, rank, gpu).value < own; });
}

}  // namespace

std::string explain(const NodeFacts& facts, const std::vector<Choice>& choices, std::size_t rank) {
    const Choice& choice = choices[rank];
    const RankFacts& who = facts.ranks[rank];
    if (choice.gpu < 0)
        return facts.gpus.empty() ? "there is no NVIDIA GPU" : "it may see no GPU";
    std::string text;
    if (who.visible.size() == 1)
        text = "the only GPU that it sees";
    else if (!choice.bound)
        text = "not bound to cores, so in the GPUs' PCI order";
    if (choice.bound) {
        text += (text.empty() ? "" : ", ") + where(choice.reach);
        if (nearer_exists(facts, who, choice))
            text += "; the nearer ones are taken";
    }
    if (choice.load > 1)
        text += fmt::format("; shared by {} ranks", choice.load);
    return text;
}

}  // namespace swy::topology
