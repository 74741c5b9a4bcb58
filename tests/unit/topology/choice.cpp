// The rule of choice on random nodes, against all that could be chosen, and its properties on larger ones.
#include "topology/choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "random_node.hpp"
#include "tests/random_seed.hpp"

namespace swy::topology {
namespace {

std::vector<int> gpus_of(const std::vector<Choice>& choices) {
    std::vector<int> gpus;
    for (const Choice& choice : choices)
        gpus.push_back(choice.gpu);
    return gpus;
}

class Choosing : public testing::Test {
  protected:
    Choosing() : seed_(random_seed()), random_(seed_) { RecordProperty("seed", static_cast<int>(seed_)); }
    const unsigned seed_;
    std::mt19937 random_;
};

TEST_F(Choosing, Is_the_best_of_all_by_the_rule) {
    for (int round = 0; round < 1500; ++round) {
        const Plan plan = random_plan(random_, 7, 4);
        ASSERT_EQ(gpus_of(choose(facts_of(plan))), best_of_all(plan)) << "seed " << seed_ << ", round " << round;
    }
}

TEST_F(Choosing, Leaves_no_visible_GPU_idle_while_two_ranks_share_one) {
    for (int round = 0; round < 60; ++round) {
        const Plan plan = random_plan(random_, 40, 16);
        const std::vector<Choice> choices = choose(facts_of(plan));
        std::vector<int> load(plan.gpus.size());
        for (const Choice& choice : choices)
            if (choice.gpu >= 0)
                ++load[static_cast<std::size_t>(choice.gpu)];
        for (std::size_t rank = 0; rank < choices.size(); ++rank)
            for (const int other : plan.ranks[rank].visible)
                EXPECT_LE(load[static_cast<std::size_t>(choices[rank].gpu)], load[static_cast<std::size_t>(other)] + 1)
                    << "seed " << seed_ << ", round " << round << ", rank " << rank;
    }
}

TEST_F(Choosing, Takes_only_what_a_rank_sees_and_counts_as_it_counts) {
    for (int round = 0; round < 60; ++round) {
        const Plan plan = random_plan(random_, 40, 16);
        const std::vector<Choice> choices = choose(facts_of(plan));
        for (std::size_t rank = 0; rank < choices.size(); ++rank) {
            const std::vector<int>& visible = plan.ranks[rank].visible;
            ASSERT_EQ(choices[rank].gpu < 0, visible.empty()) << "seed " << seed_;
            if (!visible.empty()) {
                ASSERT_EQ(visible.at(static_cast<std::size_t>(choices[rank].ordinal)), choices[rank].gpu)
                    << "seed " << seed_;
            }
        }
    }
}

TEST_F(Choosing, Is_the_same_when_the_system_numbers_its_PUs_otherwise) {
    for (int round = 0; round < 60; ++round) {
        const Plan plan = random_plan(random_, 24, 8);
        std::vector<int> number(static_cast<std::size_t>(plan.cpus));
        std::iota(number.begin(), number.end(), 100);
        std::shuffle(number.begin(), number.end(), random_);
        ASSERT_EQ(gpus_of(choose(facts_of(plan, number))), gpus_of(choose(facts_of(plan))))
            << "seed " << seed_ << ", round " << round;
    }
}

TEST_F(Choosing, Is_as_good_when_GPUs_are_numbered_otherwise) {
    for (int round = 0; round < 60; ++round) {
        const Plan plan = random_plan(random_, 16, 4);
        std::vector<int> now(plan.gpus.size());  // of each GPU
        std::iota(now.begin(), now.end(), 0);
        std::shuffle(now.begin(), now.end(), random_);
        Plan other = plan;
        for (std::size_t gpu = 0; gpu < now.size(); ++gpu) {
            other.gpus[static_cast<std::size_t>(now[gpu])] = plan.gpus[gpu];
            for (std::size_t peer = 0; peer < now.size() && !plan.links.empty(); ++peer)
                other.links[static_cast<std::size_t>(now[gpu]) * now.size() + static_cast<std::size_t>(now[peer])] =
                    plan.links[gpu * now.size() + peer];
        }
        for (Plan::Rank& rank : other.ranks)
            for (int& gpu : rank.visible)
                gpu = now[static_cast<std::size_t>(gpu)];
        ASSERT_EQ(cost_of(other, gpus_of(choose(facts_of(other)))), cost_of(plan, gpus_of(choose(facts_of(plan)))))
            << "seed " << seed_ << ", round " << round;
    }
}

TEST(Choosing_for_many, Is_done_for_256_ranks_and_16_GPUs_with_links) {
    NodeFacts facts;
    for (unsigned gpu = 0; gpu < 16; ++gpu) {
        GpuFacts there;
        for (unsigned cpu = 0; cpu < 16; ++cpu)
            there.local.add(16 * gpu + cpu);
        there.cache = there.numa = there.package = there.local;
        facts.gpus.push_back(there);
        for (unsigned other = 0; other < 16; ++other)
            facts.links.push_back((gpu ^ other) == 1 ? 50000 : 0);
    }
    for (unsigned rank = 0; rank < 256; ++rank) {
        RankFacts who;
        who.binding.add(255 - rank);
        for (int gpu = 0; gpu < 16; ++gpu)
            who.visible.push_back(gpu);
        facts.ranks.push_back(who);
    }
    const std::vector<Choice> choices = choose(facts);
    for (int rank = 0; rank < 256; ++rank)
        EXPECT_EQ(choices[static_cast<std::size_t>(rank)].gpu, 15 - rank / 16);
}

// A GPU cut into slices (MIG): several devices at one PCI address, each a GPU of its own to the rule.
TEST(Slices, Are_taken_one_each_before_any_is_shared) {
    NodeFacts facts;
    facts.gpus.resize(4);  // the first three are of one GPU, on the first package
    for (int gpu = 0; gpu < 4; ++gpu)
        Cpus::parse(gpu < 3 ? "0-3" : "4-7", facts.gpus[static_cast<std::size_t>(gpu)].local);
    for (GpuFacts& gpu : facts.gpus)
        gpu.cache = gpu.numa = gpu.package = gpu.local;
    for (const char* binding : {"0", "1", "2", "3"}) {
        RankFacts rank{{}, {0, 1, 2, 3}};
        Cpus::parse(binding, rank.binding);
        facts.ranks.push_back(rank);
    }
    EXPECT_EQ(gpus_of(choose(facts)), (std::vector<int>{0, 1, 2, 3}));
}

NodeFacts two_nodes(int gpus, int ranks) {
    NodeFacts facts;
    facts.gpus.resize(static_cast<std::size_t>(gpus));
    for (int gpu = 0; gpu < gpus; ++gpu) {
        GpuFacts& there = facts.gpus[static_cast<std::size_t>(gpu)];
        const bool first = gpu < gpus / 2;
        Cpus::parse(first ? "0-7" : "8-15", there.local);
        there.cache = there.numa = there.package = there.local;
        there.nodes = {first ? 0 : 1};
    }
    std::vector<int> all(static_cast<std::size_t>(gpus));
    std::iota(all.begin(), all.end(), 0);
    facts.ranks.assign(static_cast<std::size_t>(ranks), {{}, all});
    return facts;
}

TEST(Spreading, Takes_the_nodes_in_turn) {
    EXPECT_EQ(gpus_of(choose_spread(two_nodes(4, 6))), (std::vector<int>{0, 2, 1, 3, 0, 2}));
    EXPECT_EQ(gpus_of(choose_spread(two_nodes(4, 2))), (std::vector<int>{0, 2}));
}

TEST(Spreading, Keeps_to_what_a_rank_sees) {
    NodeFacts facts = two_nodes(4, 3);
    facts.ranks[0].visible = {1};
    facts.ranks[2].visible = {1, 0};
    EXPECT_EQ(gpus_of(choose_spread(facts)), (std::vector<int>{1, 2, 0}));
}

TEST(Sharing_out, Gives_every_GPU_to_one_rank_and_its_choice_first) {
    NodeFacts facts = two_nodes(8, 2);
    Cpus::parse("8-15", facts.ranks[0].binding);
    Cpus::parse("0-7", facts.ranks[1].binding);
    EXPECT_EQ(share_out(facts, choose(facts)), (std::vector<std::vector<int>>{{4, 5, 6, 7}, {0, 1, 2, 3}}));
}

TEST(Sharing_out, Leaves_one_process_all_GPUs_in_their_order) {
    const NodeFacts facts = two_nodes(4, 1);
    EXPECT_EQ(share_out(facts, choose(facts)), (std::vector<std::vector<int>>{{0, 1, 2, 3}}));
}

TEST(Sharing_out, Gives_ranks_that_share_a_GPU_that_one_alone) {
    const NodeFacts facts = two_nodes(2, 4);
    EXPECT_EQ(share_out(facts, choose(facts)), (std::vector<std::vector<int>>{{0}, {0}, {1}, {1}}));
}

TEST(Choosing_for_nobody, Gives_an_empty_table) {
    EXPECT_TRUE(choose({}).empty());
    EXPECT_EQ(gpus_of(choose(two_nodes(0, 2))), (std::vector<int>{-1, -1}));
}

}  // namespace
}  // namespace swy::topology
