// What lanes and pools ask of the driver, counted on a stand-in, and what they do when the driver fails.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "device/call_scope.hpp"
#include "device/device.hpp"
#include "in_child.hpp"
#include "settings/settings.hpp"

namespace {

using namespace swy::device;
using swy::settings::Sync;

constexpr std::uintptr_t kSomewhere = 0x7f0000000000;

TEST(Lanes, Idle_ones_are_bounded_and_all_are_destroyed_at_the_end) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        {
            std::vector<Stream> lanes(3 * kIdleStreams);
            for (Stream& lane : lanes)
                ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        }
        EXPECT_EQ(fake.calls("cuStreamCreate"), 3 * kIdleStreams);
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 2 * kIdleStreams);
        Stream used_again;
        ASSERT_EQ(Stream::acquire(fake_context(0), used_again), 0);
        EXPECT_EQ(fake.calls("cuStreamCreate"), 3 * kIdleStreams);
        release_pools();
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 3 * kIdleStreams - 1);
        used_again = Stream();  // given back late: nobody keeps it
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 3 * kIdleStreams);
        EXPECT_EQ(fake.calls("cuEventDestroy_v2"), fake.calls("cuEventCreate"));
    });
}

struct Counted {
    explicit Counted(FakeDriver& driver)
        : fake(driver),
          pushes(now("cuCtxPushCurrent_v2")),
          asked(now("cuPointerGetAttribute")),
          exchanges(now("cuThreadExchangeStreamCaptureMode")) {}
    long now(const char* function) const { return static_cast<long>(fake.calls(function)); }
    void expect(long more_pushes, long more_asked, long more_exchanges) const {
        EXPECT_EQ(now("cuCtxPushCurrent_v2") - pushes, more_pushes);
        EXPECT_EQ(now("cuPointerGetAttribute") - asked, more_asked);
        EXPECT_EQ(now("cuThreadExchangeStreamCaptureMode") - exchanges, more_exchanges);
    }
    FakeDriver& fake;
    long pushes, asked, exchanges;
};

void copy_with(Stream& lane) {
    std::array<char, 8> from{}, to{};
    ASSERT_EQ(lane.copy(to.data(), from.data(), to.size()), 0);
    ASSERT_EQ(lane.record(), 0);
}

TEST(Calls, Of_one_scope_share_the_context_the_capture_mode_and_the_question_whether_the_context_lives) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Stream first;  // what is made once is made
        ASSERT_EQ(Stream::acquire(fake_context(0), first), 0);
        first = Stream();
        const Counted together(fake);
        {
            const CallScope scope(fake_context(0));
            Stream lane;
            ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
            copy_with(lane);
            EXPECT_TRUE(lane.alive());
        }
        together.expect(1, 1, 2);
        Stream lane;
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        const Counted apart(fake);
        copy_with(lane);
        EXPECT_TRUE(lane.alive());
        EXPECT_TRUE(lane.alive());
        apart.expect(2, 2, 4);
    });
}

TEST(Calls, Of_a_scope_find_their_context_current_behind_another_one) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Stream lane;
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        const Counted counted(fake);
        {
            const CallScope scope(fake_context(0));
            const ContextScope other(fake_context(1));
            copy_with(lane);
        }
        counted.expect(4, 0, 2);  // the scope's, the other one's, and one for each call
    });
}

TEST(Lanes, One_with_unfinished_work_is_not_handed_out_before_that_is_done) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Stream lane;
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        const StreamHandle busy = lane.stream();
        fake.stream_state = CUDA_ERROR_NOT_READY;
        lane = Stream();
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        EXPECT_NE(lane.stream(), busy);
        fake.stream_state = CUDA_SUCCESS;
        Stream another;
        ASSERT_EQ(Stream::acquire(fake_context(0), another), 0);
        EXPECT_EQ(another.stream(), busy);
    });
}

void forget_lanes_of_a_reset_context(FakeDriver& fake) {
    std::array<Stream, 3> lanes;
    for (Stream& lane : lanes)
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
    const StreamHandle old = lanes[0].stream();
    lanes[0] = Stream();
    fake.context_id[0] = 77;  // reset and made again, under the same handle
    EXPECT_FALSE(lanes[1].alive());
    lanes[1] = Stream();
    EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 0);
    ASSERT_EQ(Stream::acquire(fake_context(0), lanes[1]), 0);
    EXPECT_NE(lanes[1].stream(), old);
    EXPECT_TRUE(lanes[1].alive());
    fake.primary_active[0] = false;  // reset, and nothing since
    Stream none;
    EXPECT_NE(Stream::acquire(fake_context(0), none), 0);
    EXPECT_FALSE(none);
    for (Stream& lane : lanes)
        lane = Stream();
    release_pools();
    EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), 0);
}

TEST(Lanes, Those_of_a_context_that_was_reset_are_forgotten_without_a_call_on_them) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        forget_lanes_of_a_reset_context(fake);
    });
}

TEST(Lanes, Those_of_a_context_that_was_reset_are_forgotten_on_a_device_without_free_memory_too) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.allocations = CUDA_ERROR_OUT_OF_MEMORY;
        forget_lanes_of_a_reset_context(fake);
    });
}

TEST(Lanes, Nothing_they_do_disturbs_a_capture_of_the_programs) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        fake.strict_capture = true;
        {
            Stream lane;
            ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
            int a = 0;
            int b = 0;
            bool done = false;
            EXPECT_EQ(lane.wait_for_program(Sync::kLegacy), 0);
            EXPECT_EQ(lane.copy(&a, &b, sizeof a), 0);
            EXPECT_EQ(lane.record(), 0);
            EXPECT_EQ(lane.query(done), 0);
            EXPECT_TRUE(done);
            Pinned pinned;
            ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, pinned), 0);
            EXPECT_TRUE(pinned.page_locked());
        }
        release_pools();
        EXPECT_EQ(fake.calls("cuStreamDestroy_v2"), fake.calls("cuStreamCreate"));
        EXPECT_EQ(fake.calls("cuMemHostUnregister"), 1);
        EXPECT_EQ(fake.capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    });
}

TEST(Lanes, Do_not_touch_the_legacy_stream_while_a_stream_that_synchronises_with_it_is_captured) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Stream lane;
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        fake.legacy_capturing = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        EXPECT_EQ(lane.wait_for_program(Sync::kLegacy), 0);
        EXPECT_EQ(fake.calls("cuEventRecord"), 0);
        fake.legacy_capturing = CUDA_SUCCESS;
        EXPECT_EQ(lane.wait_for_program(Sync::kLegacy), 0);
        EXPECT_EQ(fake.calls("cuEventRecord"), 1);
        EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 1);
        EXPECT_EQ(lane.wait_for_program(Sync::kNone), 0);
        EXPECT_EQ(fake.calls("cuCtxSynchronize"), 0);
        EXPECT_EQ(lane.wait_for_program(Sync::kDevice), 0);
        EXPECT_EQ(fake.calls("cuCtxSynchronize"), 1);
    });
}

TEST(Lanes, Copy_more_than_four_gibibytes_and_rows_of_any_pitch) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Stream lane;
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        char* to = reinterpret_cast<char*>(kSomewhere);
        ASSERT_EQ(lane.copy(to, to + (std::size_t{1} << 40), 5'000'000'001), 0);
        EXPECT_EQ(fake.copied, 5'000'000'001u);
        fake.copied = 0;
        // The fake refuses every copy in two dimensions, as real drivers do above CU_DEVICE_ATTRIBUTE_MAX_PITCH.
        ASSERT_EQ(lane.copy_2d(to, 3'000'000'000, to + (std::size_t{1} << 40), 3'000'000'000, 100, 7), 0);
        EXPECT_EQ(fake.copied, 700u);
        ASSERT_EQ(lane.copy(to, to + 8, 0), 0);
        EXPECT_EQ(fake.copied, 700u);
    });
}

TEST(Lanes, Report_the_drivers_errors_as_values) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Stream lane;
        ASSERT_EQ(Stream::acquire(fake_context(0), lane), 0);
        fake.everything = CUDA_ERROR_ILLEGAL_ADDRESS;
        bool done = true;
        EXPECT_EQ(lane.query(done), CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_FALSE(done);
        EXPECT_EQ(lane.record(), CUDA_ERROR_ILLEGAL_ADDRESS);
        Stream second;
        EXPECT_EQ(Stream::acquire(fake_context(0), second), CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_FALSE(second);
        EXPECT_EQ(Stream::acquire(nullptr, second), CUDA_ERROR_INVALID_CONTEXT);
    });
}

void set_pool(std::size_t bytes) {
    swy::settings::Values values;
    values.pinned_pool = bytes;
    swy::settings::install(values, false);
}

TEST(PinnedMemory, What_is_page_locked_never_exceeds_the_pool) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        set_pool(4 << 20);
        std::array<Pinned, 5> blocks;
        for (Pinned& block : blocks)
            ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, block), 0);
        for (int i = 0; i < 4; ++i)
            EXPECT_TRUE(blocks[i].page_locked());
        EXPECT_FALSE(blocks[4].page_locked());
        static_cast<char*>(blocks[4].data())[(1 << 20) - 1] = 1;
        for (Pinned& block : blocks)
            block = Pinned();
        EXPECT_EQ(fake.calls("cuMemHostRegister_v2"), 4);
        // Idle blocks of the wrong size make room.
        ASSERT_EQ(Pinned::acquire(fake_context(0), 3 << 20, blocks[0]), 0);
        EXPECT_TRUE(blocks[0].page_locked());
        EXPECT_EQ(fake.calls("cuMemHostUnregister"), 3);
        ASSERT_EQ(Pinned::acquire(fake_context(0), 5 << 20, blocks[1]), 0);
        EXPECT_FALSE(blocks[1].page_locked());
        for (Pinned& block : blocks)
            block = Pinned();
        release_pools();
        EXPECT_EQ(fake.calls("cuMemHostUnregister"), fake.calls("cuMemHostRegister_v2"));
    });
}

TEST(PinnedMemory, Is_pageable_where_the_driver_cannot_pin) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        set_pool(4 << 20);
        fake.host_register = CUDA_ERROR_NOT_SUPPORTED;
        for (int i = 0; i < 20; ++i) {
            Pinned pinned;
            ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, pinned), 0);
            EXPECT_FALSE(pinned.page_locked());
            static_cast<char*>(pinned.data())[0] = 1;
        }
        fake.host_register = CUDA_SUCCESS;
        Pinned pinned;
        ASSERT_EQ(Pinned::acquire(fake_context(0), 4 << 20, pinned), 0);
        EXPECT_TRUE(pinned.page_locked()) << "failures must not use the pool up";
    });
}

TEST(PinnedMemory, Stays_mapped_when_the_driver_does_not_let_go_of_it) {
    with_fake("current", [](FakeDriver& fake) {
        ASSERT_EQ(load_driver(), DriverState::kLoaded);
        Pinned pinned;
        ASSERT_EQ(Pinned::acquire(fake_context(0), 1 << 20, pinned), 0);
        auto* data = static_cast<volatile char*>(pinned.data());
        pinned = Pinned();
        fake.host_unregister = CUDA_ERROR_ILLEGAL_ADDRESS;
        release_pools();
        data[0] = 1;  // else another mapping could come to lie over pages that the driver still copies from
        EXPECT_EQ(data[0], 1);
    });
}

}  // namespace
