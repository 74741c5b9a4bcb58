// Layouts against the standard's type maps, written out byte by byte, and against MPI_Pack.
#include "datatype/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "../../random_seed.hpp"
#include "datatype/prefix.hpp"
#include "random_type.hpp"

namespace {

using swy::datatype::Block;
using swy::datatype::clear_first_bytes;
using swy::datatype::first_bytes;
using swy::datatype::Layout;
using swy::datatype::layout_of;

// Every byte of data of one element, in packed order.
std::vector<MPI_Aint> bytes_of(const Layout& layout) {
    constexpr MPI_Aint kNothing = -1234567;
    std::vector<MPI_Aint> where(layout.size, kNothing);
    for (const Block& block : layout.blocks) {
        const auto dims = layout.dims_of(block);
        std::size_t copies = 1;
        for (const auto& dim : dims)
            copies *= dim.count;
        for (std::size_t copy = 0; copy < copies; ++copy) {
            MPI_Aint offset = block.offset;
            std::size_t packed = block.packed, rest = copy;
            for (const auto& dim : dims) {
                offset += static_cast<MPI_Aint>(rest % dim.count) * dim.stride;
                packed += rest % dim.count * dim.packed_stride;
                rest /= dim.count;
            }
            for (std::size_t i = 0; i < block.length; ++i) {
                EXPECT_EQ(where.at(packed + i), kNothing) << "two bytes of data at one place of the packed form";
                where.at(packed + i) = offset + static_cast<MPI_Aint>(i);
            }
        }
    }
    return where;
}

unsigned char value_at(MPI_Aint position) {
    return static_cast<unsigned char>((static_cast<unsigned long>(position) * 2654435761u) >> 13);
}

// What MPI_Pack makes of one element.
std::vector<unsigned char> packed_by_mpi(MPI_Datatype type, MPI_Aint lowest, MPI_Aint highest, std::size_t size) {
    std::vector<unsigned char> memory(static_cast<std::size_t>(highest - lowest) + 1), packed(size + 1);
    for (std::size_t i = 0; i < memory.size(); ++i)
        memory[i] = value_at(lowest + static_cast<MPI_Aint>(i));
    int position = 0;
    MPI_Pack(memory.data() - lowest, 1, type, packed.data(), static_cast<int>(packed.size()), &position, MPI_COMM_SELF);
    packed.resize(static_cast<std::size_t>(position));
    return packed;
}

class RandomTypes : public testing::Test {};

void check_against_the_standard(const Layout& layout, const model::Type& type, MPI_Aint low, MPI_Aint high) {
    ASSERT_EQ(bytes_of(layout), type.where);
    EXPECT_EQ(layout.true_lb, low);
    EXPECT_EQ(layout.true_extent, high - low);
    EXPECT_EQ(layout.overlapping, std::set(type.where.begin(), type.where.end()).size() != type.where.size());
    std::vector<MPI_Aint> adjacent(type.where.size());
    std::iota(adjacent.begin(), adjacent.end(), low);
    EXPECT_EQ(layout.contiguous, adjacent == type.where && layout.extent == static_cast<MPI_Aint>(layout.size));
}

// Open MPI 5.0 packs some structures from other places than it was told (seen in 5.0.11: no INT at 109, two complex
// numbers at -35 and two at 37; the last come from 29), so it is no reference for random types.
constexpr bool kPackIsReliable = OMPI_MAJOR_VERSION < 5;

void check_against_pack(const Layout& layout, MPI_Datatype type, MPI_Aint low, MPI_Aint high) {
    const std::vector<MPI_Aint> where = bytes_of(layout);
    const auto packed = packed_by_mpi(type, low, high, layout.size);
    ASSERT_EQ(packed.size(), layout.size);
    for (std::size_t i = 0; i < packed.size(); ++i)
        ASSERT_EQ(packed[i], value_at(where[i])) << "byte " << i;
}

TEST_F(RandomTypes, Layouts_are_the_type_maps_of_the_standard_and_of_MPI_Pack) {
    constexpr unsigned kTypes = 3000;
    for (unsigned seed = random_seed(), end = seed + kTypes; seed < end && !HasFailure(); ++seed) {
        SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
        model::Maker maker(seed);
        const model::Type type = maker.make(maker.below(5));
        const auto layout = layout_of(type.handle);
        MPI_Aint lb = 0, extent = 0;
        MPI_Type_get_extent(type.handle, &lb, &extent);
        EXPECT_EQ(layout->lb, lb);
        EXPECT_EQ(layout->extent, extent);
        ASSERT_EQ(layout->size, type.where.size());
        if (type.where.empty())
            continue;
        const auto [low, last] = std::minmax_element(type.where.begin(), type.where.end());
        check_against_the_standard(*layout, type, *low, *last + 1);
        if (kPackIsReliable)
            check_against_pack(*layout, type.handle, *low, *last + 1);
    }
}

TEST_F(RandomTypes, The_first_bytes_are_read_and_cleared_where_the_type_map_has_them) {
    constexpr unsigned kTypes = 500;
    for (unsigned seed = random_seed(), end = seed + kTypes; seed < end && !HasFailure(); ++seed) {
        SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
        model::Maker maker(seed);
        const model::Type type = maker.make(maker.below(5));
        const auto count = static_cast<std::size_t>(maker.below(4));
        std::vector<MPI_Aint> where;
        for (std::size_t element = 0; element < count; ++element)
            for (const MPI_Aint at : type.where)
                where.push_back(at + static_cast<MPI_Aint>(element) * type.extent());
        if (where.empty())
            continue;
        const auto [low, last] = std::minmax_element(where.begin(), where.end());
        std::vector<std::byte> memory(static_cast<std::size_t>(*last - *low) + 1);
        for (std::size_t i = 0; i < memory.size(); ++i)
            memory[i] = static_cast<std::byte>(value_at(*low + static_cast<MPI_Aint>(i)));
        const auto some = static_cast<std::size_t>(maker.below(static_cast<int>(where.size()) + 3));
        std::vector<std::byte> first(some, std::byte{0x77});
        const std::size_t there = std::min(some, where.size());
        ASSERT_EQ(first_bytes(*layout_of(type.handle), memory.data() - *low, count, first), there);
        std::vector<std::byte> cleared = memory;
        for (std::size_t i = 0; i < there; ++i) {
            ASSERT_EQ(first[i], static_cast<std::byte>(value_at(where[i]))) << "byte " << i;
            cleared[static_cast<std::size_t>(where[i] - *low)] = std::byte{0};
        }
        clear_first_bytes(*layout_of(type.handle), memory.data() - *low, count, some);
        ASSERT_EQ(memory, cleared);
    }
}

// Open MPI 4.1.4 takes a stride of -1 byte for one extent, against the standard.
TEST(Layout, A_stride_of_minus_one_byte_is_what_MPI_makes_of_it) {
    for (int length : {1, 2}) {
        MPI_Datatype type;
        MPI_Type_vector(5, length, -1, MPI_CHAR, &type);
        MPI_Type_commit(&type);
        MPI_Aint low = 0, extent = 0;
        MPI_Type_get_true_extent(type, &low, &extent);
        const auto layout = layout_of(type);
        EXPECT_EQ(layout->true_lb, low);
        EXPECT_EQ(layout->true_extent, extent);
        check_against_pack(*layout, type, low, low + extent);
        MPI_Type_free(&type);
    }
}

TEST(Layout, A_million_blocks_at_equal_distances_are_one) {
    constexpr int kMany = 1000000;
    MPI_Datatype vector, array, structure, pair;
    MPI_Type_vector(kMany, 1, 3, MPI_DOUBLE, &vector);
    EXPECT_EQ(layout_of(vector)->blocks.size(), 1u);
    EXPECT_FALSE(layout_of(vector)->overlapping);

    const int lengths[] = {1, 2};
    const MPI_Aint at[] = {0, 8};
    const MPI_Datatype members[] = {MPI_CHAR, MPI_INT};
    MPI_Type_create_struct(2, lengths, at, members, &pair);
    MPI_Type_contiguous(kMany, pair, &structure);
    EXPECT_EQ(layout_of(structure)->blocks.size(), 2u);
    EXPECT_FALSE(layout_of(structure)->overlapping);
    EXPECT_EQ(layout_of(structure)->size, 9u * kMany);

    std::vector<int> places(kMany);
    for (int i = 0; i < kMany; ++i)
        places[static_cast<std::size_t>(i)] = 2 * i;
    MPI_Type_create_indexed_block(kMany, 1, places.data(), MPI_FLOAT, &array);
    EXPECT_EQ(layout_of(array)->blocks.size(), 1u);
    for (MPI_Datatype* type : {&vector, &array, &structure, &pair})
        MPI_Type_free(type);
}

TEST(Layout, A_part_of_a_three_dimensional_array_is_one_block) {
    const int sizes[] = {100, 90, 80}, parts[] = {50, 40, 30}, starts[] = {1, 2, 3};
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    const auto layout = layout_of(type);
    ASSERT_EQ(layout->blocks.size(), 1u);
    EXPECT_EQ(layout->blocks[0].length, 30u * 8);
    EXPECT_EQ(layout->blocks[0].offset, ((1 * 90 + 2) * 80 + 3) * 8);
    EXPECT_EQ(layout->element, MPI_DOUBLE);
    MPI_Type_free(&type);
}

TEST(Layout, Is_freed_with_its_type_and_kept_by_who_has_it) {
    MPI_Datatype type;
    MPI_Type_vector(3, 1, 2, MPI_INT, &type);
    std::weak_ptr<const Layout> seen = layout_of(type);
    EXPECT_FALSE(seen.expired()) << "kept with the type";
    EXPECT_EQ(seen.lock(), layout_of(type));
    std::shared_ptr<const Layout> mine = layout_of(type);
    MPI_Type_free(&type);
    EXPECT_EQ(mine->size, 12u);
    mine.reset();
    EXPECT_TRUE(seen.expired());
}

TEST(Layout, Elements_are_told_where_there_is_one_kind) {
    MPI_Datatype vector, mixed;
    MPI_Type_vector(4, 2, 5, MPI_FLOAT, &vector);
    EXPECT_EQ(layout_of(vector)->element, MPI_FLOAT);
    const int lengths[] = {1, 1, 0};
    const MPI_Aint at[] = {0, 200, 400};
    const MPI_Datatype alike[] = {vector, MPI_FLOAT, MPI_DOUBLE}, different[] = {vector, MPI_INT, MPI_DOUBLE};
    MPI_Type_create_struct(3, lengths, at, alike, &mixed);
    EXPECT_EQ(layout_of(mixed)->element, MPI_FLOAT) << "a member without elements has no say";
    MPI_Type_free(&mixed);
    MPI_Type_create_struct(3, lengths, at, different, &mixed);
    EXPECT_EQ(layout_of(mixed)->element, MPI_DATATYPE_NULL);
    MPI_Type_free(&mixed);
    MPI_Type_free(&vector);
}

TEST(Layout, Absolute_addresses_and_Fortran_s_parameterised_types) {
    double one = 0;
    int other[4];
    MPI_Aint at[2];
    MPI_Get_address(&one, &at[0]);
    MPI_Get_address(other, &at[1]);
    const int lengths[] = {1, 4};
    const MPI_Datatype members[] = {MPI_DOUBLE, MPI_INT};
    MPI_Datatype type;
    MPI_Type_create_struct(2, lengths, at, members, &type);
    const auto layout = layout_of(type);
    ASSERT_EQ(layout->blocks.size(), 2u);
    EXPECT_EQ(layout->blocks[0].offset, at[0]);
    EXPECT_EQ(layout->blocks[1].offset, at[1]);
    EXPECT_EQ(layout->blocks[1].length, sizeof other);
    MPI_Type_free(&type);

    MPI_Datatype real, pair;
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
    EXPECT_TRUE(layout_of(real)->predefined);
    EXPECT_EQ(layout_of(real)->element, MPI_DOUBLE);
    MPI_Type_contiguous(2, real, &pair);
    EXPECT_EQ(layout_of(pair)->size, 16u);
    EXPECT_TRUE(layout_of(pair)->contiguous);
    MPI_Type_free(&pair);
    EXPECT_EQ(layout_of(real)->size, 8u) << "a predefined type is not freed with what is made of it";
}

TEST(Layout, Types_without_data_have_no_blocks) {
    MPI_Datatype type;
    MPI_Type_contiguous(0, MPI_INT, &type);
    const auto layout = layout_of(type);
    EXPECT_TRUE(layout->blocks.empty());
    EXPECT_EQ(layout->size, 0u);
    EXPECT_FALSE(layout->contiguous);
    MPI_Type_free(&type);
}

TEST(Layout, More_than_two_gigabytes_in_an_element) {
    MPI_Datatype row, all;
    MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &row);
    MPI_Type_vector(3, 1, 2, row, &all);
    const auto layout = layout_of(all);
    EXPECT_EQ(layout->size, std::size_t{3} << 33);
    EXPECT_EQ(layout->true_extent, MPI_Aint{5} << 33);
    EXPECT_EQ(swy::datatype::size_of(all), std::size_t{3} << 33);
    MPI_Type_free(&row);
    MPI_Type_free(&all);
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
