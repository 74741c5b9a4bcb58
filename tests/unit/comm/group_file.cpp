// The file of SWITCHYARD_GROUPS: what its lines mean, and what is said of those that mean nothing, with their numbers.
#include "ext/named/group_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using swy::named::NamedGroup;

constexpr int kWorld = 8;

struct Read {
    std::vector<NamedGroup> groups;
    std::string problem;
};

Read read(std::string_view text, int world = kWorld) {
    Read result;
    result.problem = swy::named::read_groups(text, "job.groups", world, result.groups);
    return result;
}

std::vector<int> ranks(std::string_view list, int world = kWorld) {
    const Read all = read(std::string("g = ") + std::string(list), world);
    EXPECT_EQ(all.problem, "") << list;
    return all.groups.size() == 1 ? all.groups[0].ranks : std::vector<int>{};
}

std::string problem(std::string_view text) {
    return read(text).problem;
}

TEST(Group_file, Lists_ranks_in_the_order_of_the_group) {
    EXPECT_EQ(ranks("3"), (std::vector<int>{3}));
    EXPECT_EQ(ranks("3 1,2"), (std::vector<int>{3, 1, 2}));
    EXPECT_EQ(ranks("5 , 0,\t7"), (std::vector<int>{5, 0, 7}));
    EXPECT_EQ(ranks("2,,4,"), (std::vector<int>{2, 4})) << "empty places in the list";
}

TEST(Group_file, Has_ranges_in_both_directions_and_with_steps) {
    EXPECT_EQ(ranks("0-3"), (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(ranks("3-0"), (std::vector<int>{3, 2, 1, 0}));
    EXPECT_EQ(ranks("0-7/2"), (std::vector<int>{0, 2, 4, 6}));
    EXPECT_EQ(ranks("7-0/3"), (std::vector<int>{7, 4, 1}));
    EXPECT_EQ(ranks("4-4"), (std::vector<int>{4}));
    EXPECT_EQ(ranks("6-7 0-1"), (std::vector<int>{6, 7, 0, 1}));
    EXPECT_EQ(ranks("1-2/9"), (std::vector<int>{1})) << "a step beyond the end";
}

TEST(Group_file, Takes_the_last_rank_of_the_world) {
    EXPECT_EQ(ranks("0-7"), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(ranks("0", 1), (std::vector<int>{0}));
}

TEST(Group_file, Passes_over_comments_blank_lines_and_carriage_returns) {
    const Read all = read("# who is where\r\n\r\n  tp = 0-1 # two of them\r\n\t\nprefill=2 3\n   # the end");
    EXPECT_EQ(all.problem, "");
    ASSERT_EQ(all.groups.size(), 2u);
    EXPECT_EQ(all.groups[0].name, "tp");
    EXPECT_EQ(all.groups[0].ranks, (std::vector<int>{0, 1}));
    EXPECT_EQ(all.groups[0].line, 3);
    EXPECT_EQ(all.groups[1].name, "prefill");
    EXPECT_EQ(all.groups[1].ranks, (std::vector<int>{2, 3}));
    EXPECT_EQ(all.groups[1].line, 5);
}

TEST(Group_file, May_be_empty) {
    for (const char* text : {"", "\n\n", "# nothing yet"}) {
        const Read all = read(text);
        EXPECT_EQ(all.problem, "");
        EXPECT_TRUE(all.groups.empty());
    }
}

TEST(Group_file, Has_several_groups_of_a_name_and_several_names_over_the_same_ranks) {
    const Read all = read("tp = 0 1\ntp = 2 3\npp = 0 2\npp = 1 3\nall = 0-3");
    EXPECT_EQ(all.problem, "");
    ASSERT_EQ(all.groups.size(), 5u);
    EXPECT_EQ(all.groups[1].name, "tp");
    EXPECT_EQ(all.groups[1].ranks, (std::vector<int>{2, 3}));
    EXPECT_EQ(all.groups[3].ranks, (std::vector<int>{1, 3}));
}

TEST(Group_file, Names_the_line_that_is_no_group) {
    EXPECT_EQ(problem("tp = 0\nwhat is this"), "job.groups:2: \"what is this\" is no group: write NAME = RANKS");
}

TEST(Group_file, Names_the_line_whose_name_is_no_word) {
    EXPECT_EQ(problem("\n\n= 0"), "job.groups:3: \"\" is no name: a word before the =");
    EXPECT_EQ(problem("my group = 0"), "job.groups:1: \"my group\" is no name: a word before the =");
    EXPECT_EQ(problem("# my =\nmy\tgroup = 0"), "job.groups:2: \"my\tgroup\" is no name: a word before the =");
}

TEST(Group_file, Names_the_line_and_the_word_that_are_no_ranks) {
    constexpr const char* kNone[] = {"x",   "-1",   "1-", "1-x", "1/2/3", "0-4/0", "0-4/",          "0-4/-1",
                                     "1.5", "0--3", "+1", "1=2", "0x1",   "1;2",   "0-99999999999", "99999999999"};
    for (const std::string word : kNone)
        EXPECT_EQ(problem("tp = 0\ndp = 1 " + word),
                  "job.groups:2: \"" + word + "\" is no rank and no range of ranks: write 3, 0-7 or 0-6/2");
}

TEST(Group_file, Names_the_line_of_a_group_without_ranks) {
    EXPECT_EQ(problem("tp ="), "job.groups:1: a group without ranks");
    EXPECT_EQ(problem("tp = 1\ndp = , ,\n"), "job.groups:2: a group without ranks");
    EXPECT_EQ(problem("tp = # 0-3"), "job.groups:1: a group without ranks");
}

TEST(Group_file, Names_the_line_with_a_rank_beyond_the_world) {
    const std::string end = " is not in MPI_COMM_WORLD, whose ranks are 0 to 7";
    EXPECT_EQ(problem("tp = 0\n\ntp = 8"), "job.groups:3: rank 8" + end);
    EXPECT_EQ(problem("tp = 6-2000000000"), "job.groups:1: rank 8" + end) << "and makes no list of them all";
    EXPECT_EQ(problem("tp = 2000000000-0"), "job.groups:1: rank 2000000000" + end);
}

TEST(Group_file, Names_both_lines_where_a_rank_is_in_a_name_twice) {
    EXPECT_EQ(problem("tp = 0 1\npp = 1\ntp = 2 1"), "job.groups:3: rank 1 is in the group tp already, by line 1");
    EXPECT_EQ(problem("tp = 0-3 2"), "job.groups:1: rank 2 is in the group tp already, by line 1");
}

TEST(Group_file, Tells_of_the_first_line_that_is_wrong) {
    EXPECT_EQ(problem("tp = 0\n= 1\nnothing\n"), "job.groups:2: \"\" is no name: a word before the =");
}

}  // namespace
