// How many elements of a predefined type are small, against arithmetic, for limits of all sizes and counts around them.
#include <gtest/gtest.h>

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "fastpath/collective.hpp"

namespace {

using namespace swy::call;
using namespace swy::fastpath;

class Small : public ::testing::Test {
  protected:
    ~Small() override { set(false, 0); }
    static void set(bool agrees, std::size_t least) {
        job_agrees = agrees;
        agreed_from = least;
        forget_small_counts();
    }
};

const std::vector<MPI_Datatype>& types() {
    static const std::vector<MPI_Datatype> all{MPI_CHAR,       MPI_BYTE,        MPI_SHORT, MPI_INT,
                                               MPI_FLOAT,      MPI_DOUBLE,      MPI_LONG,  MPI_C_DOUBLE_COMPLEX,
                                               MPI_DOUBLE_INT, MPI_LONG_DOUBLE, MPI_2INT,  MPI_UNSIGNED,
                                               MPI_INT64_T};
    return all;
}

TEST_F(Small, Is_what_has_fewer_bytes_than_the_threshold_asked_for_the_first_time_and_again) {
    for (const std::size_t least : {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{65536}}) {
        for (const MPI_Datatype type : types()) {
            set(true, least);  // for each alone: of two types that share a place one is asked about each time
            int size = 0;
            MPI_Type_size(type, &size);
            const auto bytes = static_cast<std::size_t>(size);
            for (const std::size_t near : {std::size_t{0}, std::size_t{1}, least / bytes, least / bytes + 1,
                                           least / bytes + 2, std::size_t{INT32_MAX}}) {
                const auto count = static_cast<MPI_Count>(near);
                EXPECT_EQ(small(count, type), near * bytes < least) << near << " of " << bytes << " bytes, " << least;
                EXPECT_EQ(known_small(count, type), near * bytes < least) << near << " of " << bytes << ", " << least;
            }
            EXPECT_FALSE(small(-1, type));
            EXPECT_FALSE(known_small(-1, type));
        }
    }
}

TEST_F(Small, Is_everything_in_a_job_that_does_not_agree) {
    for (const MPI_Datatype type : types()) {
        set(false, 8);
        EXPECT_FALSE(known_small(1, type)) << "not asked about before";
        EXPECT_TRUE(small(INT32_MAX, type));
        EXPECT_TRUE(known_small(INT32_MAX, type));
    }
}

TEST_F(Small, Is_no_type_that_the_program_has_made) {
    set(true, 65536);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_INT, &made);
    EXPECT_FALSE(small(1, made));
    EXPECT_FALSE(known_small(1, made));
    EXPECT_FALSE(known_small(1, MPI_DATATYPE_NULL));
    EXPECT_FALSE(known_small(1, nullptr));
    MPI_Type_free(&made);
}

}  // namespace

int main(int argc, char** argv) {
    ::testing::InitGoogleTest(&argc, argv);
    MPI_Init(&argc, &argv);
    const int result = RUN_ALL_TESTS();
    MPI_Finalize();
    return result;
}
