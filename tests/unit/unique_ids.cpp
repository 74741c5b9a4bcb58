// Which ranks draw the unique ids of a large group. NCCL gives each id a run of neighbouring ranks, the first ones one
// rank more where they do not divide evenly (NCCL guide, "Creating a communicator using multiple ncclUniqueIds").
#include "comm/unique_ids.hpp"

#include <gtest/gtest.h>

namespace {

using swy::comm::drawn_by;
using swy::comm::ids_for;

TEST(Unique_ids, Are_drawn_by_the_ranks_of_the_guides_example) {
    EXPECT_EQ(drawn_by(0, 3, 7), 0);
    EXPECT_EQ(drawn_by(1, 3, 7), 3);
    EXPECT_EQ(drawn_by(2, 3, 7), 5);
}

TEST(Unique_ids, Are_drawn_by_the_first_of_equal_runs_of_ranks) {
    for (int ranks = 1; ranks < 200; ++ranks)
        for (int ids = 1; ids <= ranks; ++ids) {
            int first = 0;
            for (int number = 0; number < ids; ++number) {
                EXPECT_EQ(drawn_by(number, ids, ranks), first) << number << " of " << ids << ", " << ranks << " ranks";
                first += ranks / ids + (number < ranks % ids ? 1 : 0);
            }
            EXPECT_EQ(first, ranks);
        }
}

TEST(Unique_ids, Are_one_for_a_small_group_and_never_more_than_ranks) {
    EXPECT_EQ(ids_for(2), 1);
    EXPECT_EQ(ids_for(8), 1);
    EXPECT_GT(ids_for(64), 1);
    for (int ranks = 2; ranks < 2000; ++ranks)
        EXPECT_LE(ids_for(ranks), ranks);
}

}  // namespace
