// The words that packing kernels move against the standard's type maps, written out byte by byte: every byte that is
// asked for once, from its place, and no word across an address that a GPU could not take it from.
#include "datatype/plan.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include "../../random_seed.hpp"
#include "random_type.hpp"

namespace {

using swy::datatype::find_word;
using swy::datatype::for_each_work;
using swy::datatype::Layout;
using swy::datatype::layout_of;
using swy::datatype::PackWork;

constexpr MPI_Aint kUnseen = -987654321;

struct Part {
    std::size_t from, to;
};

// Where each byte of the part comes from.
std::vector<MPI_Aint> moved(const Layout& layout, std::size_t count, Part part, unsigned shift) {
    std::vector<MPI_Aint> where(part.to - part.from, kUnseen);
    PackWork work{};
    work.memory = 0x10000000 + shift;
    work.packed = 0x70000000 + (part.from + shift) % 16;
    work.from = part.from;
    work.to = part.to;
    for_each_work(layout, count, work, [&](const PackWork& one) {
        for (std::uint64_t i = 0; i < words_of(one); ++i) {
            std::int64_t memory = 0;
            std::uint64_t packed = 0;
            if (!find_word(one, i, memory, packed))
                continue;
            EXPECT_EQ((one.memory + static_cast<std::uint64_t>(memory)) % one.word, 0u);
            EXPECT_EQ((one.packed + packed) % one.word, 0u);
            for (std::uint32_t b = 0; b < one.word; ++b) {
                EXPECT_EQ(where.at(packed + b), kUnseen) << "a byte is moved twice";
                where.at(packed + b) = memory + b;
            }
        }
        return 0;
    });
    return where;
}

void check(const model::Type& type, const Layout& layout, std::size_t count, Part part, unsigned shift) {
    std::vector<MPI_Aint> wanted;
    for (std::size_t p = part.from; p < part.to; ++p)
        wanted.push_back(type.where[p % type.where.size()] +
                         static_cast<MPI_Aint>(p / type.where.size()) * layout.extent);
    ASSERT_EQ(moved(layout, count, part, shift), wanted)
        << count << " elements, bytes " << part.from << " to " << part.to;
}

TEST(Plan, Random_types_are_packed_in_type_map_order_whole_and_in_parts) {
    const unsigned seed = random_seed();
    model::Maker maker(seed);
    int plans = 0;
    for (int i = 0; i < 1500; ++i) {
        SCOPED_TRACE(i);
        const model::Type type = maker.make(maker.below(4));
        const auto layout = layout_of(type.handle);
        if (layout->plan == nullptr) {
            EXPECT_TRUE(layout->contiguous || layout->size == 0);
            continue;
        }
        ++plans;
        const std::size_t count = 1 + static_cast<std::size_t>(maker.below(4)), bytes = count * layout->size;
        check(type, *layout, count, {0, bytes}, 0);
        const auto from = static_cast<std::size_t>(maker.below(static_cast<int>(bytes)));
        const auto n = 1 + static_cast<std::size_t>(maker.below(static_cast<int>(bytes - from)));
        check(type, *layout, count, {from, from + n}, static_cast<unsigned>(maker.below(16)));
        if (HasFatalFailure())
            return;
    }
    EXPECT_GT(plans, 300);
}

MPI_Datatype committed(MPI_Datatype type) {
    MPI_Type_commit(&type);
    return type;
}

TEST(Plan, A_vector_of_any_length_is_one_run_with_dims_in_the_longest_words_that_fit) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(1000000, 2, 4, MPI_DOUBLE, &type);
    const auto layout = layout_of(committed(type));
    ASSERT_NE(layout->plan, nullptr);
    EXPECT_EQ(layout->plan->runs.size(), 1u);
    EXPECT_EQ(layout->plan->alignment, 16u);
    EXPECT_TRUE(swy::datatype::suits_kernel(*layout, 1));
    MPI_Type_free(&type);
}

TEST(Plan, An_irregular_list_is_split_over_as_many_works_as_its_runs_need) {
    std::vector<int> at;
    for (int i = 0; i < 1000; ++i)
        at.push_back(i * i + i);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_indexed_block(1000, 1, at.data(), MPI_INT, &type);
    const auto layout = layout_of(committed(type));
    ASSERT_NE(layout->plan, nullptr);
    EXPECT_EQ(layout->plan->runs.size(), 1000u);
    int works = 0;
    PackWork work{};
    work.to = layout->size;
    for_each_work(*layout, 1, work, [&](const PackWork& one) {
        works += one.runs > 0;
        return 0;
    });
    EXPECT_EQ(works, (1000 + swy::datatype::kPackRuns - 1) / swy::datatype::kPackRuns);
    works = 0;
    work = {};
    work.from = 400;
    work.to = 800;
    for_each_work(*layout, 1, work, [&](const PackWork& one) {
        works += one.runs > 0;
        return 0;
    });
    EXPECT_EQ(works, 1) << "runs outside the part are looked at";
    MPI_Type_free(&type);
}

// Beyond 2^32 bytes and 2^31 elements: rows of 3 bytes every 8, elements of 2^20 rows, from the last back to the first.
TEST(Plan, Far_into_a_message_words_are_where_arithmetic_says) {
    constexpr std::size_t kRows = 1 << 20, kCount = std::size_t{3} << 30, kElement = kCount - 3;
    constexpr std::size_t kFrom = 3 * (kRows * kElement + 77) + 1;
    MPI_Datatype rows = MPI_DATATYPE_NULL, element = MPI_DATATYPE_NULL;
    MPI_Type_create_hvector(kRows, 3, 8, MPI_BYTE, &rows);
    MPI_Type_create_resized(rows, 0, -static_cast<MPI_Aint>(10 * kRows), &element);
    const auto layout = layout_of(committed(element));
    ASSERT_NE(layout->plan, nullptr);
    std::vector<MPI_Aint> wanted;
    for (std::size_t i = 1; i < 10; ++i)
        wanted.push_back(static_cast<MPI_Aint>((77 + i / 3) * 8 + i % 3) -
                         static_cast<MPI_Aint>(10 * kRows * kElement));
    EXPECT_EQ(moved(*layout, kCount, {kFrom, kFrom + 9}, 0), wanted);
    MPI_Type_free(&element);
    MPI_Type_free(&rows);
}

// Many irregular elements: as a list they would be more than anybody wants to keep.
TEST(Plan, More_than_a_million_runs_are_left_to_copies) {
    MPI_Datatype row = MPI_DATATYPE_NULL, table = MPI_DATATYPE_NULL, cube = MPI_DATATYPE_NULL;
    MPI_Type_create_hvector(1 << 16, 1, 4, MPI_BYTE, &row);
    MPI_Type_create_hvector(1 << 16, 1, 1 << 19, row, &table);
    const MPI_Datatype members[] = {table, row, table};
    const int lengths[] = {1, 1, 1};
    const MPI_Aint at[] = {0, 1, MPI_Aint{1} << 40};
    MPI_Type_create_struct(3, lengths, at, members, &cube);
    EXPECT_EQ(layout_of(committed(cube))->plan, nullptr);
    for (MPI_Datatype* type : {&cube, &table, &row})
        MPI_Type_free(type);
}

TEST(Plan, Long_rows_are_left_to_copies) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(100, 8192, 10000, MPI_BYTE, &type);
    EXPECT_FALSE(swy::datatype::suits_kernel(*layout_of(committed(type)), 1));
    MPI_Type_free(&type);
    EXPECT_FALSE(swy::datatype::suits_kernel(*layout_of(MPI_INT), 1000));
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    MPI_Init(&argc, &argv);
    const int failed = RUN_ALL_TESTS();
    swy::datatype::release();
    MPI_Finalize();
    return failed;
}
