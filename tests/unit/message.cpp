// The first part of a message of unknown size, and the memory in which a payload goes under.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "ext/message/header.hpp"
#include "ext/message/sink.hpp"

namespace {

using swy::message::Header;
using swy::message::kHeaderBytes;
using swy::message::Kind;
using swy::message::Sink;

std::vector<std::byte> written(const Header& header) {
    std::vector<std::byte> bytes(header.whole());
    swy::message::write(header, std::span(bytes).first<kHeaderBytes>());
    return bytes;
}

TEST(Message_header, Is_read_as_it_was_written) {
    for (const Header& header : {Header{}, Header{Kind::kWithin, 2, 17, 3000}, Header{Kind::kRefused},
                                 Header{Kind::kFollows, 1, 2048, std::uint64_t{1} << 45}})
        EXPECT_EQ(swy::message::read(written(header)), header);
}

TEST(Message_header, Is_none_with_any_bit_changed) {
    const std::vector<std::byte> good = written({Kind::kWithin, 1, 8, 100});
    for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
        std::vector<std::byte> bad = good;
        bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        EXPECT_FALSE(swy::message::read(bad)) << "bit " << bit;
    }
}

TEST(Message_header, Is_none_without_all_that_it_announces) {
    const std::vector<std::byte> good = written({Kind::kWithin, 1, 8, 100});
    EXPECT_FALSE(swy::message::read(std::span(good).first(good.size() - 1)));
    EXPECT_FALSE(swy::message::read(std::span(good).first(kHeaderBytes - 1)));
    EXPECT_FALSE(swy::message::read({}));
}

TEST(Message_sink, Takes_any_number_of_bytes_into_a_few_pages) {
    const Sink sink(std::size_t{200} << 30);
    ASSERT_NE(sink.data(), nullptr);
    auto* bytes = static_cast<unsigned char*>(sink.data());
    bytes[(std::size_t{200} << 30) - 1] = 7;
    EXPECT_EQ(bytes[(std::size_t{16} << 20) - 1], 7);  // the same page
    for (const std::size_t few : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, (std::size_t{16} << 20) + 1}) {
        const Sink small(few);
        ASSERT_NE(small.data(), nullptr);
        if (few > 0)
            static_cast<unsigned char*>(small.data())[few - 1] = 1;
    }
}

}  // namespace
