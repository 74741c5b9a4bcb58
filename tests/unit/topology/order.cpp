// The order of a process's GPUs: cases in a plain file (tests/topology/orders.tsv), and random nodes against all orders
// there are. What a step costs is worked out here from the node's plan, not by the code under test.
#include "topology/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "random_node.hpp"
#include "read_cases.hpp"
#include "tests/random_seed.hpp"
#include "topology/lists.hpp"

namespace swy::topology {
namespace {

std::string joined(const std::vector<std::vector<int>>& shares) {
    std::string all;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        all += rank == 0 ? "" : ";";
        for (const int gpu : shares[rank])
            all += (gpu == shares[rank].front() ? "" : ",") + std::to_string(gpu);
    }
    return all;
}

void check(const std::filesystem::path& file, const Case& one) {
    SCOPED_TRACE(one.at("id") + ": " + one.at("why"));
    Machine machine;
    ASSERT_EQ(read_machine(file.string(), machine), "");
    NodeFacts facts;
    ASSERT_EQ(add_ranks({one.at("binding"), one.at("visible"), {}, std::stoi(one.at("ranks"))}, machine, facts), "");
    EXPECT_EQ(joined(share_out(facts, choose(facts))), one.at("expect"));
}

TEST(Orders, Are_those_that_are_written_down) {
    const std::vector<Case> cases = read_cases(cases_folder() / "orders.tsv");
    EXPECT_GE(cases.size(), 20u);
    for (const Case& one : cases)
        check(cases_folder() / (one.at("machine") + ".xml"), one);
}

TEST(Orders, On_recorded_machines_are_those_that_are_written_down) {
    const char* given = std::getenv("SWY_TOPOLOGIES");
    const std::filesystem::path folder = given != nullptr ? given : source() / "../shared/topologies";
    int found = 0;
    for (const Case& one : read_cases(cases_folder() / "orders_recorded.tsv"))
        if (const auto file = folder / (one.at("machine") + ".xml"); std::filesystem::exists(file)) {
            ++found;
            check(file, one);
        }
    if (found == 0)
        GTEST_SKIP() << "no recorded machines in " << folder << " (SWY_TOPOLOGIES names the folder)";
}

// How far a step between two GPUs is, the farther the larger; and how long among its kind.
using Length = std::pair<int, std::int64_t>;

// A random node whose GPUs also have places on PCI, and all lengths, from the plan.
struct Ring {
    Plan plan;
    struct Slot {
        int bridge = 0, board = 0;  // 0: not known, or on no switch
    };
    std::vector<Slot> slots;

    int gpus() const { return static_cast<int>(plan.gpus.size()); }

    std::set<int> parts(int gpu, int cpus_each) const {
        constexpr int kOf[] = {0, 2, 4, 8};
        const Plan::Gpu& there = plan.gpus[static_cast<std::size_t>(gpu)];
        std::set<int> found;
        for (int cpu = 0; cpu < kOf[there.level]; ++cpu)
            found.insert((there.index * kOf[there.level] + cpu) / cpus_each);
        return found;
    }

    bool share(int a, int b, int cpus_each) const {
        const std::set<int> others = parts(b, cpus_each);
        const std::set<int> own = parts(a, cpus_each);
        return std::any_of(own.begin(), own.end(), [&](int part) { return others.count(part) != 0; });
    }

    Length length(int a, int b) const {
        const auto at = [&](int from, int to) {
            return plan.links[static_cast<std::size_t>(from) * plan.gpus.size() + static_cast<std::size_t>(to)];
        };
        if (!plan.links.empty() && at(a, b) > 0 && at(b, a) > 0)
            return {1, -std::min(at(a, b), at(b, a))};
        const Slot& one = slots[static_cast<std::size_t>(a)];
        const Slot& other = slots[static_cast<std::size_t>(b)];
        if (one.bridge != 0 && one.bridge == other.bridge)
            return one.board != 0 && one.board == other.board
                       ? Length{2, 2}
                       : Length{3, 2 + (one.board != 0 ? 1 : 0) + (other.board != 0 ? 1 : 0)};
        if (plan.gpus[static_cast<std::size_t>(a)].level == 0 || plan.gpus[static_cast<std::size_t>(b)].level == 0)
            return {7, 0};
        return {share(a, b, 1) ? 4 : share(a, b, 2) ? 5 : share(a, b, 4) ? 6 : share(a, b, 8) ? 8 : 9, 0};
    }

    // By kind, the farthest first: how many steps, and how long in sum. Compared as it is read.
    using Cost = std::map<int, std::pair<std::int64_t, std::int64_t>>;
    static bool less(const Cost& a, const Cost& b) {
        for (int kind = 9; kind > 0; --kind) {
            const auto of = [&](const Cost& cost) {
                return cost.count(kind) != 0 ? cost.at(kind) : std::pair<std::int64_t, std::int64_t>();
            };
            if (of(a) != of(b))
                return of(a) < of(b);
        }
        return false;
    }
    // Of a way over all these, and on to `next`.
    Cost cost(const std::vector<int>& order, int next) const {
        Cost all;
        for (std::size_t at = 0; at < order.size(); ++at) {
            const int to = at + 1 < order.size() ? order[at + 1] : next;
            if (to == order[at])
                continue;
            const auto [kind, length_there] = length(order[at], to);
            all[kind].first += 1;
            all[kind].second += length_there;
        }
        return all;
    }
};

NodeFacts facts_of(const Ring& ring, const std::vector<int>& number) {
    NodeFacts facts = facts_of(ring.plan, number);
    for (std::size_t gpu = 0; gpu < facts.gpus.size(); ++gpu) {
        const auto [bridge, board] = ring.slots[gpu];
        if (bridge == 0)
            continue;
        std::vector<std::string>& path = facts.gpus[gpu].path;
        path.push_back("bridge " + std::to_string(bridge));
        if (board != 0)
            path.push_back(path.back() + " board " + std::to_string(board));
        path.push_back("gpu " + std::to_string(gpu));
    }
    return facts;
}

std::vector<int> counted(int size) {
    std::vector<int> numbers(static_cast<std::size_t>(size));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

NodeFacts facts_of(const Ring& ring) {
    return facts_of(ring, counted(ring.plan.cpus));
}

class Ordering : public testing::Test {
  protected:
    Ordering() : seed_(random_seed()), random_(seed_) { RecordProperty("seed", static_cast<int>(seed_)); }

    int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

    Ring ring_of(int least, int most) {
        Ring ring;
        do
            ring.plan = random_plan(random_, 1, most);
        while (ring.gpus() < least);
        ring.slots.resize(ring.plan.gpus.size());
        for (Ring::Slot& slot : ring.slots) {
            slot.bridge = draw(0, 2);
            slot.board = draw(0, 2);
        }
        return ring;
    }

    // Some of the GPUs, in any order.
    std::vector<int> some(int gpus) {
        std::vector<int> chosen = counted(gpus);
        std::shuffle(chosen.begin(), chosen.end(), random_);
        chosen.resize(static_cast<std::size_t>(draw(1, gpus)));
        return chosen;
    }

    // A GPU that is none of these, their first one where there is none.
    static int one_more(const std::vector<int>& gpus, int all) {
        for (int gpu = 0; gpu < all; ++gpu)
            if (std::find(gpus.begin(), gpus.end(), gpu) == gpus.end())
                return gpu;
        return gpus.front();
    }

    const unsigned seed_;
    std::mt19937 random_;
};

TEST_F(Ordering, Is_the_best_of_all_orders) {
    for (int round = 0; round < 400; ++round) {
        const Ring ring = ring_of(1, 6);
        std::vector<int> gpus = some(ring.gpus());
        const int next = draw(0, 1) == 0 ? gpus.front() : one_more(gpus, ring.gpus());
        const std::vector<int> order = ring_order(facts_of(ring), gpus, next);
        ASSERT_EQ(order.front(), gpus.front()) << "seed " << seed_ << ", round " << round;
        ASSERT_TRUE(std::is_permutation(order.begin(), order.end(), gpus.begin(), gpus.end())) << "seed " << seed_;
        std::sort(gpus.begin() + 1, gpus.end());
        do
            ASSERT_FALSE(Ring::less(ring.cost(gpus, next), ring.cost(order, next)))
                << "seed " << seed_ << ", round " << round;
        while (std::next_permutation(gpus.begin() + 1, gpus.end()));
    }
}

TEST_F(Ordering, Of_many_is_never_worse_than_PCI_order) {
    for (int round = 0; round < 100; ++round) {
        const Ring ring = ring_of(9, 24);
        std::vector<int> gpus = counted(ring.gpus());
        std::rotate(gpus.begin(), gpus.begin() + draw(0, ring.gpus() - 1), gpus.end());
        std::vector<int> given = gpus;
        std::shuffle(given.begin() + 1, given.end(), random_);
        const std::vector<int> order = ring_order(facts_of(ring), given, given.front());
        ASSERT_EQ(order.front(), gpus.front()) << "seed " << seed_ << ", round " << round;
        ASSERT_TRUE(std::is_permutation(order.begin(), order.end(), gpus.begin(), gpus.end())) << "seed " << seed_;
        ASSERT_FALSE(Ring::less(ring.cost(gpus, gpus.front()), ring.cost(order, gpus.front())))
            << "seed " << seed_ << ", round " << round;
    }
}

TEST_F(Ordering, Is_the_same_when_PUs_are_numbered_otherwise_or_GPUs_seen_in_another_order) {
    for (int round = 0; round < 100; ++round) {
        const Ring ring = ring_of(1, 16);
        std::vector<int> number = counted(ring.plan.cpus);
        std::shuffle(number.begin(), number.end(), random_);
        std::vector<int> gpus = some(ring.gpus());
        const std::vector<int> order = ring_order(facts_of(ring), gpus, gpus.front());
        std::shuffle(gpus.begin() + 1, gpus.end(), random_);
        ASSERT_EQ(ring_order(facts_of(ring, number), gpus, gpus.front()), order) << "seed " << seed_;
    }
}

TEST_F(Ordering, Is_as_good_when_GPUs_are_numbered_otherwise) {
    for (int round = 0; round < 100; ++round) {
        const Ring ring = ring_of(1, static_cast<int>(kMostExact));
        std::vector<int> now = counted(ring.gpus());  // of each GPU
        std::shuffle(now.begin(), now.end(), random_);
        Ring other = ring;
        const std::size_t size = now.size();
        for (std::size_t gpu = 0; gpu < size; ++gpu) {
            const auto to = static_cast<std::size_t>(now[gpu]);
            other.plan.gpus[to] = ring.plan.gpus[gpu];
            other.slots[to] = ring.slots[gpu];
            for (std::size_t peer = 0; peer < size && !ring.plan.links.empty(); ++peer)
                other.plan.links[to * size + static_cast<std::size_t>(now[peer])] = ring.plan.links[gpu * size + peer];
        }
        const std::vector<int> gpus = counted(ring.gpus());
        const std::vector<int> one = ring_order(facts_of(ring), gpus, gpus.front());
        const std::vector<int> two = ring_order(facts_of(other), now, now.front());
        ASSERT_EQ(ring.cost(one, one.front()), other.cost(two, two.front())) << "seed " << seed_ << ", round " << round;
    }
}

TEST_F(Ordering, Leaves_the_last_GPU_of_a_rank_near_the_first_of_the_next_where_that_costs_nothing_else) {
    for (int round = 0; round < 100; ++round) {
        const Ring ring = ring_of(4, static_cast<int>(kMostExact));
        std::vector<int> all = counted(ring.gpus());
        std::shuffle(all.begin(), all.end(), random_);
        const auto half = all.begin() + ring.gpus() / 2;
        std::vector<std::vector<int>> shares{{all.begin(), half}, {}, {half, all.end()}};
        const std::vector<std::vector<int>> before = shares;
        order_shares(facts_of(ring), shares);
        ASSERT_TRUE(shares[1].empty());
        for (const auto& [rank, next] : {std::pair(0, 2), std::pair(2, 0)}) {
            const auto at = static_cast<std::size_t>(rank);
            const int to = before[static_cast<std::size_t>(next)].front();
            ASSERT_EQ(shares[at].front(), before[at].front());
            std::vector<int> tried = before[at];
            std::sort(tried.begin() + 1, tried.end());
            do
                ASSERT_FALSE(Ring::less(ring.cost(tried, to), ring.cost(shares[at], to))) << "seed " << seed_;
            while (std::next_permutation(tried.begin() + 1, tried.end()));
        }
    }
}

TEST(Slices, Of_one_GPU_follow_each_other) {
    NodeFacts facts;
    facts.gpus.resize(6);  // the first, third and fifth are slices of one
    for (std::size_t gpu = 0; gpu < 6; ++gpu)
        facts.gpus[gpu].path = {"bridge", gpu % 2 == 0 ? "gpu a" : "gpu " + std::to_string(gpu)};
    const std::vector<int> order = ring_order(facts, std::vector<int>{2, 1, 0, 3, 4, 5}, 2);
    EXPECT_EQ(order, (std::vector<int>{2, 4, 0, 3, 5, 1}));
}

// Seven slices of each of sixteen GPUs.
TEST(Ordering_many, Is_done_for_112_devices) {
    NodeFacts facts;
    facts.gpus.resize(112);
    for (std::size_t gpu = 0; gpu < 112; ++gpu)
        facts.gpus[gpu].path = {gpu % 2 == 0 ? "bridge a" : "bridge b", "gpu " + std::to_string(gpu % 16)};
    const std::vector<int> order = ring_order(facts, counted(112), 0);
    int between_gpus = 0;
    int between_bridges = 0;
    for (std::size_t at = 0; at < order.size(); ++at) {
        const int to = order[(at + 1) % order.size()];
        between_gpus += to % 16 != order[at] % 16 ? 1 : 0;
        between_bridges += to % 2 != order[at] % 2 ? 1 : 0;
    }
    EXPECT_EQ(between_gpus, 16);
    EXPECT_EQ(between_bridges, 2);
}

}  // namespace
}  // namespace swy::topology
