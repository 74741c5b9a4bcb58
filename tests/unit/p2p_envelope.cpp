// The bytes of an envelope: whatever is not one of this job's, whole and unchanged, is a payload.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <random>
#include <vector>

#include "../random_seed.hpp"
#include "call/envelope.hpp"

namespace {

using swy::call::Envelope;
using swy::call::EnvelopeBytes;
using swy::call::kEnvelopeBytes;
using swy::call::Secret;

class Draw {
  public:
    Draw() {
        const unsigned seed = random_seed();
        std::cout << "SWY_RANDOM_SEED=" << seed << "\n";
        random_.seed(seed);
    }
    std::uint64_t word() { return random_(); }
    Secret secret() { return {word(), word()}; }
    Envelope envelope() {
        Envelope e;
        e.id = word();
        e.bytes = word();
        e.sender = static_cast<std::uint32_t>(word());
        e.contiguous = word() % 2 != 0;
        e.nccl = word() % 2 != 0;
        e.shares_gpu = word() % 2 != 0;
        e.several = word() % 2 != 0;
        e.synchronous = word() % 2 != 0;
        for (std::uint8_t& byte : e.gpu)
            byte = static_cast<std::uint8_t>(word());
        e.host = word();
        e.pair_comms_failed = word();
        e.parent = word();
        return e;
    }
    std::vector<std::byte> bytes(std::size_t size) {
        std::vector<std::byte> all(size);
        for (std::byte& byte : all)
            byte = static_cast<std::byte>(word());
        return all;
    }

  private:
    std::mt19937_64 random_;
};

TEST(Envelope, Is_read_as_it_was_written) {
    Draw draw;
    for (int i = 0; i < 2000; ++i) {
        const Secret secret = draw.secret();
        const Envelope envelope = draw.envelope();
        const EnvelopeBytes bytes = swy::call::write(envelope, secret);
        const auto back = swy::call::read(bytes, secret);
        ASSERT_TRUE(back.has_value());
        EXPECT_EQ(*back, envelope);
    }
    const Secret none{};
    EXPECT_EQ(swy::call::read(swy::call::write(Envelope{}, none), none), Envelope{});
}

TEST(Envelope, Is_refused_with_any_single_byte_changed) {
    Draw draw;
    for (int i = 0; i < 20; ++i) {
        const Secret secret = draw.secret();
        EnvelopeBytes bytes = swy::call::write(draw.envelope(), secret);
        for (std::size_t at = 0; at < bytes.size(); ++at)
            for (int change = 1; change < 256; ++change) {
                bytes[at] ^= static_cast<std::byte>(change);
                EXPECT_FALSE(swy::call::read(bytes, secret).has_value()) << "byte " << at << " changed by " << change;
                bytes[at] ^= static_cast<std::byte>(change);
            }
        EXPECT_TRUE(swy::call::read(bytes, secret).has_value());
    }
}

TEST(Envelope, Is_refused_when_cut_or_followed_by_more) {
    Draw draw;
    const Secret secret = draw.secret();
    const EnvelopeBytes bytes = swy::call::write(draw.envelope(), secret);
    std::vector<std::byte> longer(bytes.begin(), bytes.end());
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_FALSE(swy::call::read({bytes.data(), size}, secret).has_value()) << size;
    for (int i = 0; i < 50; ++i) {
        longer.push_back(i % 2 == 0 ? std::byte{0} : bytes[static_cast<std::size_t>(i)]);
        EXPECT_FALSE(swy::call::read(longer, secret).has_value()) << longer.size();
    }
}

TEST(Envelope, Of_another_job_is_a_payload) {
    Draw draw;
    for (int bit = 0; bit < 128; ++bit) {
        const Secret secret = draw.secret();
        Secret other = secret;
        other[static_cast<std::size_t>(bit / 64)] ^= std::uint64_t{1} << (bit % 64);
        EXPECT_FALSE(swy::call::read(swy::call::write(draw.envelope(), other), secret).has_value()) << "bit " << bit;
    }
}

TEST(Envelope, Is_not_found_in_random_bytes) {
    Draw draw;
    const Secret secret = draw.secret();
    for (int i = 0; i < 200000; ++i)
        EXPECT_FALSE(swy::call::read(draw.bytes(kEnvelopeBytes), secret).has_value());
    for (int i = 0; i < 20000; ++i)
        EXPECT_FALSE(swy::call::read(draw.bytes(draw.word() % 300), secret).has_value());
}

// The secret alone makes no envelope: the rest must have been written together.
TEST(Envelope, Is_refused_where_parts_of_two_are_put_together) {
    Draw draw;
    const Secret secret = draw.secret();
    for (int i = 0; i < 2000; ++i) {
        const EnvelopeBytes first = swy::call::write(draw.envelope(), secret);
        EnvelopeBytes mixed = first;
        const EnvelopeBytes other = swy::call::write(draw.envelope(), secret);
        const std::size_t from = draw.word() % kEnvelopeBytes, size = 1 + draw.word() % (kEnvelopeBytes - from);
        std::memcpy(&mixed[from], &other[from], size);
        if (mixed == other || mixed == first)
            continue;
        EXPECT_FALSE(swy::call::read(mixed, secret).has_value()) << "bytes " << from << " to " << from + size;
    }
}

// What a receive that was too small leaves of an envelope names its transfer at the sender.
TEST(Envelope, Begins_with_bytes_that_no_other_of_its_sender_has) {
    Draw draw;
    const Secret secret = draw.secret();
    Envelope envelope = draw.envelope();
    std::vector<EnvelopeBytes> all;
    for (std::uint64_t id = 1; id <= 300; ++id) {
        envelope.id = id;
        all.push_back(swy::call::write(envelope, secret));
        for (std::size_t i = 0; i + 1 < all.size(); ++i)
            ASSERT_NE(std::memcmp(all[i].data(), all.back().data(), swy::call::kNamingBytes), 0) << i << ", " << id;
    }
}

}  // namespace
