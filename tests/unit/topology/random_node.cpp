#include "random_node.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace swy::topology {

namespace {

int draw(std::mt19937& random, int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
}

constexpr int kOf[] = {0, 2, 4, 8};  // PUs in a cache, a node, a package

}  // namespace

Plan random_plan(std::mt19937& random, int most_ranks, int most_gpus) {
    Plan plan;
    plan.cpus = 8 * draw(random, 1, 3);
    plan.gpus.resize(static_cast<std::size_t>(draw(random, 1, most_gpus)));
    for (Plan::Gpu& gpu : plan.gpus) {
        gpu.level = draw(random, 0, 3);
        gpu.index = gpu.level == 0 ? 0 : draw(random, 0, plan.cpus / kOf[gpu.level] - 1);
    }
    plan.ranks.resize(static_cast<std::size_t>(draw(random, 1, most_ranks)));
    for (Plan::Rank& rank : plan.ranks) {
        std::set<int> cpus;
        for (int i = draw(random, 0, 3); i > 0; --i)
            cpus.insert(draw(random, 0, plan.cpus - 1));
        rank.cpus.assign(cpus.begin(), cpus.end());
        rank.visible.resize(plan.gpus.size());
        std::iota(rank.visible.begin(), rank.visible.end(), 0);
        std::shuffle(rank.visible.begin(), rank.visible.end(), random);
        rank.visible.resize(
            static_cast<std::size_t>(draw(random, draw(random, 0, 1), static_cast<int>(plan.gpus.size()))));
    }
    if (draw(random, 0, 1) == 1)
        for (std::size_t i = 0; i < plan.gpus.size() * plan.gpus.size(); ++i)
            plan.links.push_back(i / plan.gpus.size() == i % plan.gpus.size() ? 0 : 25 * draw(random, 0, 2));
    return plan;
}

NodeFacts facts_of(const Plan& plan, const std::vector<int>& number) {
    const auto part = [&](int from, int count) {
        Cpus cpus;
        for (int cpu = from; cpu < from + count; ++cpu)
            cpus.add(static_cast<unsigned>(number[static_cast<std::size_t>(cpu)]));
        return cpus;
    };
    NodeFacts facts;
    facts.machine = part(0, plan.cpus);
    for (const Plan::Gpu& gpu : plan.gpus) {
        GpuFacts there;
        if (gpu.level > 0) {
            const int first = gpu.index * kOf[gpu.level];
            const int length = kOf[gpu.level];
            // The part that holds the GPU's, or the GPU's itself where that is larger.
            const auto around = [&](int level) {
                return length >= kOf[level] ? part(first, length) : part(first / kOf[level] * kOf[level], kOf[level]);
            };
            there = {part(first, length), around(1), around(2), around(3), {}};
        }
        facts.gpus.push_back(std::move(there));
    }
    for (const Plan::Rank& rank : plan.ranks) {
        RankFacts who;
        for (const int cpu : rank.cpus)
            who.binding.add(static_cast<unsigned>(number[static_cast<std::size_t>(cpu)]));
        who.visible = rank.visible;
        facts.ranks.push_back(std::move(who));
    }
    facts.links = plan.links;
    return facts;
}

NodeFacts facts_of(const Plan& plan) {
    std::vector<int> number(static_cast<std::size_t>(plan.cpus));
    std::iota(number.begin(), number.end(), 0);
    return facts_of(plan, number);
}

// 0 in the GPU's own part, then by the smallest part that holds both; not known lies between node and package.
int distance_of(const Plan& plan, int rank, int gpu) {
    const Plan::Gpu& there = plan.gpus[static_cast<std::size_t>(gpu)];
    const std::vector<int>& cpus = plan.ranks[static_cast<std::size_t>(rank)].cpus;
    if (cpus.empty())
        return 0;
    if (there.level == 0)
        return 3;
    int least = 5;
    for (const int cpu : cpus) {
        const int first = there.index * kOf[there.level];
        if (cpu / kOf[there.level] == there.index)
            least = 0;
        else if (there.level <= 1 && cpu / kOf[1] == first / kOf[1])
            least = std::min(least, 1);
        else if (there.level <= 2 && cpu / kOf[2] == first / kOf[2])
            least = std::min(least, 2);
        else if (cpu / kOf[3] == first / kOf[3])
            least = std::min(least, 4);
    }
    return least;
}

Cost cost_of(const Plan& plan, const std::vector<int>& gpus) {
    Cost cost{};
    std::vector<std::int64_t> load(plan.gpus.size());
    const std::int64_t fastest = plan.links.empty() ? 0 : *std::max_element(plan.links.begin(), plan.links.end());
    int before = -1;
    for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
        const int gpu = gpus[rank];
        if (gpu < 0)
            continue;
        cost[1] += load[static_cast<std::size_t>(gpu)]++;
        cost[2] += distance_of(plan, static_cast<int>(rank), gpu);
        const bool both =
            before >= 0 && !plan.ranks[static_cast<std::size_t>(before)].cpus.empty() && !plan.ranks[rank].cpus.empty();
        const int other = before >= 0 ? gpus[static_cast<std::size_t>(before)] : gpu;
        if (both && other != gpu && !plan.links.empty())
            cost[3] += fastest -
                       plan.links[static_cast<std::size_t>(other) * plan.gpus.size() + static_cast<std::size_t>(gpu)];
        before = static_cast<int>(rank);
    }
    cost[0] = *std::max_element(load.begin(), load.end());
    return cost;
}

std::vector<int> best_of_all(const Plan& plan) {
    std::vector<std::vector<int>> open;
    for (const Plan::Rank& rank : plan.ranks) {
        open.push_back(rank.visible.empty() ? std::vector<int>{-1} : rank.visible);
        std::sort(open.back().begin(), open.back().end());
    }
    std::vector<std::size_t> digit(open.size());
    std::vector<int> best;
    while (true) {
        std::vector<int> tried;
        for (std::size_t rank = 0; rank < open.size(); ++rank)
            tried.push_back(open[rank][digit[rank]]);
        // They come in ascending order: of equals the first stays.
        if (best.empty() || cost_of(plan, tried) < cost_of(plan, best))
            best = tried;
        std::size_t at = digit.size();
        while (at > 0 && ++digit[at - 1] == open[at - 1].size())
            digit[--at] = 0;
        if (at == 0)
            return best;
    }
}

}  // namespace swy::topology
