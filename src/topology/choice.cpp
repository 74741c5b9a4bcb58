#include "topology/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "topology/assignment.hpp"
#include "topology/distance.hpp"
#include "topology/order.hpp"

namespace swy::topology {

namespace {

int count(const auto& list) {
    return static_cast<int>(list.size());
}

// Returns the ranks that see a GPU, as indices of NodeFacts::ranks.
std::vector<int> seeing(const NodeFacts& facts) {
    std::vector<int> ranks;
    for (int rank = 0; rank < count(facts.ranks); ++rank)
        if (!facts.ranks[static_cast<std::size_t>(rank)].visible.empty())
            ranks.push_back(rank);
    return ranks;
}

template <typename Cost>
Problem problem_of(const NodeFacts& facts, const std::vector<int>& ranks, Cost cost) {
    Problem problem{count(ranks), count(facts.gpus), {}};
    problem.cost.assign(ranks.size() * facts.gpus.size(), kHidden);
    for (std::size_t row = 0; row < ranks.size(); ++row)
        for (const int gpu : facts.ranks[static_cast<std::size_t>(ranks[row])].visible)
            problem.cost[row * facts.gpus.size() + static_cast<std::size_t>(gpu)] = cost(ranks[row], gpu);
    return problem;
}

Neighbours neighbours_of(const NodeFacts& facts, const std::vector<int>& ranks) {
    Neighbours neighbours;
    neighbours.follows.resize(ranks.size());
    for (std::size_t row = 1; row < ranks.size(); ++row)
        neighbours.follows[row] = is_bound(facts, facts.ranks[static_cast<std::size_t>(ranks[row - 1])]) &&
                                  is_bound(facts, facts.ranks[static_cast<std::size_t>(ranks[row])]);
    if (facts.links.size() != facts.gpus.size() * facts.gpus.size())
        return neighbours;
    const auto fastest = facts.links.empty() ? 0 : *std::max_element(facts.links.begin(), facts.links.end());
    for (const std::int64_t bandwidth : facts.links)
        neighbours.slowness.push_back(fastest - std::max<std::int64_t>(bandwidth, 0));
    return neighbours;
}

std::vector<Choice> choices_of(const NodeFacts& facts, const std::vector<int>& ranks, const std::vector<int>& gpus) {
    std::vector<Choice> choices(facts.ranks.size());
    for (std::size_t row = 0; row < ranks.size(); ++row) {
        const RankFacts& rank = facts.ranks[static_cast<std::size_t>(ranks[row])];
        Choice& choice = choices[static_cast<std::size_t>(ranks[row])];
        choice.gpu = gpus[row];
        choice.ordinal =
            static_cast<int>(std::find(rank.visible.begin(), rank.visible.end(), gpus[row]) - rank.visible.begin());
        choice.load = static_cast<int>(std::count(gpus.begin(), gpus.end(), gpus[row]));
        choice.bound = is_bound(facts, rank);
        choice.reach = distance(facts, rank, gpus[row]).reach;
    }
    return choices;
}

// Returns each GPU's position in a round over the NUMA nodes: the first GPU of each node, then the second of each.
std::vector<int> positions_in_round(const NodeFacts& facts) {
    std::map<int, int> seen;                 // by node
    std::vector<std::pair<int, int>> turns;  // round, GPU
    for (int gpu = 0; gpu < count(facts.gpus); ++gpu) {
        const std::vector<int>& nodes = facts.gpus[static_cast<std::size_t>(gpu)].nodes;
        turns.emplace_back(seen[nodes.empty() ? -1 : nodes.front()]++, gpu);
    }
    std::sort(turns.begin(), turns.end());
    std::vector<int> positions(turns.size());
    for (std::size_t position = 0; position < turns.size(); ++position)
        positions[static_cast<std::size_t>(turns[position].second)] = static_cast<int>(position);
    return positions;
}

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

// Returns the reason why a rank got its GPU, as a sentence for users.
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

}  // namespace

std::vector<Choice> choose(const NodeFacts& facts) {
    const std::vector<int> ranks = seeing(facts);
    const Problem problem = problem_of(facts, ranks, [&](int rank, int gpu) {
        return distance(facts, facts.ranks[static_cast<std::size_t>(rank)], gpu).value;
    });
    const std::vector<int> gpus = assign_neighbours(problem, neighbours_of(facts, ranks), assign(problem));
    std::vector<Choice> choices = choices_of(facts, ranks, gpus);
    for (std::size_t rank = 0; rank < choices.size(); ++rank)
        choices[rank].why = explain(facts, choices, rank);
    return choices;
}

std::vector<Choice> choose_spread(const NodeFacts& facts) {
    const std::vector<int> ranks = seeing(facts);
    const std::vector<int> positions = positions_in_round(facts);
    const int all = count(facts.gpus);
    const Problem problem = problem_of(facts, ranks, [&](int rank, int gpu) {
        return (positions[static_cast<std::size_t>(gpu)] - rank % all + all) % all;
    });
    std::vector<Choice> choices = choices_of(facts, ranks, assign(problem));
    for (Choice& choice : choices)
        choice.why = choice.gpu < 0 ? "it sees no GPU" : "dealt out over the NUMA nodes in turn";
    return choices;
}

std::vector<std::vector<int>> share_out(const NodeFacts& facts, std::span<const Choice> choices) {
    std::vector<std::vector<int>> shares(choices.size());
    std::vector<bool> taken(facts.gpus.size());
    for (std::size_t rank = 0; rank < choices.size(); ++rank)
        if (choices[rank].gpu >= 0) {
            shares[rank].push_back(choices[rank].gpu);
            taken[static_cast<std::size_t>(choices[rank].gpu)] = true;
        }
    // Assigns the GPUs that are left to ranks, so that each rank gets as few of them as possible.
    std::vector<int> left;
    for (int gpu = 0; gpu < count(facts.gpus); ++gpu)
        if (!taken[static_cast<std::size_t>(gpu)])
            left.push_back(gpu);
    Problem problem{count(left), count(choices), {}};
    const std::int64_t all_steps =
        (length({Between::kMachine, INT64_MAX}) + 1) * static_cast<std::int64_t>(left.size());
    for (const int gpu : left)
        for (std::size_t rank = 0; rank < choices.size(); ++rank) {
            const RankFacts& who = facts.ranks[rank];
            const bool sees = std::find(who.visible.begin(), who.visible.end(), gpu) != who.visible.end();
            problem.cost.push_back(sees ? distance(facts, who, gpu).value * all_steps +
                                              length(step(facts, choices[rank].gpu, gpu))
                                        : kHidden);
        }
    const std::vector<int> takers = assign(problem);
    for (std::size_t i = 0; i < left.size(); ++i)
        if (takers[i] >= 0)
            shares[static_cast<std::size_t>(takers[i])].push_back(left[i]);
    order_shares(facts, shares);
    return shares;
}

}  // namespace swy::topology
