// Conversions of the narrow floating-point types against a table of all their numbers.
#include "datatype/narrow_float.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/mpi/types/small_floats.hpp"
#include "tests/random_seed.hpp"

namespace {

using namespace swy::datatype;

template <typename Format>
struct Table;
template <>
struct Table<Float16> {
    static const SmallFloats& get() {
        static const SmallFloats table(5, 10, true, false);
        return table;
    }
};
template <>
struct Table<Bfloat16> {
    static const SmallFloats& get() {
        static const SmallFloats table(8, 7, true, false);
        return table;
    }
};
template <>
struct Table<Float8E4m3> {
    static const SmallFloats& get() {
        static const SmallFloats table(4, 3, false, true);
        return table;
    }
};
template <>
struct Table<Float8E5m2> {
    static const SmallFloats& get() {
        static const SmallFloats table(5, 2, true, true);
        return table;
    }
};

template <typename Format>
class NarrowFloat : public testing::Test {
  protected:
    const SmallFloats& table = Table<Format>::get();
    static Format from_bits(std::uint32_t bits) { return {static_cast<decltype(Format::bits)>(bits)}; }
    void expect_nearest(float value) {
        ASSERT_EQ(Format::narrow(value).bits, table.nearest(value)) << std::hexfloat << value;
    }
};

using Formats = testing::Types<Float16, Bfloat16, Float8E4m3, Float8E5m2>;
TYPED_TEST_SUITE(NarrowFloat, Formats, );

TYPED_TEST(NarrowFloat, Every_number_becomes_the_same_float_and_comes_back) {
    for (std::uint32_t bits = 0; bits < this->table.numbers(); ++bits)
        for (const std::uint32_t sign : {0u, this->table.sign()}) {
            const auto number = this->from_bits(bits | sign);
            ASSERT_EQ(TypeParam::wide(number), this->table.value(bits | sign)) << bits;
            ASSERT_EQ(std::signbit(TypeParam::wide(number)), sign != 0);
            ASSERT_EQ(TypeParam::narrow(TypeParam::wide(number)).bits, bits | sign);
        }
}

TYPED_TEST(NarrowFloat, Between_two_numbers_the_nearer_one_is_taken_and_of_two_as_near_the_even_one) {
    for (std::uint32_t bits = 0; bits + 1 < this->table.numbers(); ++bits) {
        const auto middle = static_cast<float>((this->table.value(bits) + this->table.value(bits + 1)) / 2);
        for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
            this->expect_nearest(value);
            this->expect_nearest(-value);
        }
    }
}

TYPED_TEST(NarrowFloat, Any_float_is_rounded_to_the_nearest) {
    std::mt19937 random(random_seed());
    for (int i = 0; i < 200000; ++i) {
        const auto word = static_cast<std::uint32_t>(random());
        const float value = same_bits<float>(word);
        if (std::isfinite(value))
            this->expect_nearest(value);
    }
}

TYPED_TEST(NarrowFloat, Infinities_and_NaNs_keep_their_meaning_where_the_format_has_them) {
    const bool saturates = sizeof(TypeParam) == 1;
    const auto infinity = TypeParam::narrow(INFINITY);
    EXPECT_EQ(infinity.bits, saturates ? this->table.numbers() - 1 : this->table.infinity());
    EXPECT_EQ(TypeParam::narrow(-INFINITY).bits, infinity.bits | this->table.sign());
    EXPECT_TRUE(std::isnan(TypeParam::wide(TypeParam::narrow(std::numeric_limits<float>::quiet_NaN()))));
    EXPECT_EQ(std::isinf(TypeParam::wide(infinity)), !saturates);
}

}  // namespace
