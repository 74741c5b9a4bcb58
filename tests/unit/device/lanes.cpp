// Copies, ordering and pools on virtual GPUs: what is moved is checked byte by byte, against arithmetic.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "device/scratch.hpp"
#include "settings/settings.hpp"
#include "virtual_gpus.hpp"

namespace {

using namespace swy::device;
using swy::settings::Sync;
using Clock = std::chrono::steady_clock;

void* as_pointer(CUdeviceptr address) {
    return reinterpret_cast<void*>(address);
}

unsigned char pattern(std::size_t i, unsigned seed) {
    return static_cast<unsigned char>(i * 31 + i / 251 + seed);
}

std::vector<unsigned char> patterned(std::size_t bytes, unsigned seed) {
    std::vector<unsigned char> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        made[i] = pattern(i, seed);
    return made;
}

// What the program sees on the device, by its own means.
std::vector<unsigned char> fetched(CUdeviceptr address, std::size_t bytes) {
    std::vector<unsigned char> got(bytes);
    EXPECT_EQ(cu(cuMemcpyDtoH)(got.data(), address, bytes), CUDA_SUCCESS);
    return got;
}

// Polls as a carrier does.
Result finish(Stream& lane) {
    if (const Result result = lane.record(); result != 0)
        return result;
    const auto end = Clock::now() + std::chrono::seconds(60);
    for (bool done = false; !done && Clock::now() < end;) {
        if (const Result result = lane.query(done); result != 0)
            return result;
        std::this_thread::yield();
        if (done)
            return 0;
    }
    return CUDA_ERROR_LAUNCH_TIMEOUT;
}

class Lanes : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_NE(VirtualGpus::library(), nullptr) << dlerror();
        ASSERT_TRUE(adopt_loaded_driver());
        MUST(cu(cuInit)(0));
        MUST(cu(cuDevicePrimaryCtxRetain)(&primary_, 0));
        MUST(cu(cuCtxSetCurrent)(primary_));
    }
    static void TearDownTestSuite() {
        release_pools();
        MUST(cu(cuDevicePrimaryCtxRelease)(0));
    }

    void SetUp() override { ASSERT_EQ(Stream::acquire(primary_, lane_), 0); }
    void TearDown() override {
        CUcontext current = nullptr;
        MUST(cu(cuCtxGetCurrent)(&current));
        EXPECT_EQ(current, primary_) << "the caller's context has changed";
    }

    static CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr address = 0;
        EXPECT_EQ(cu(cuMemAlloc)(&address, bytes), CUDA_SUCCESS);
        return address;
    }

    static CUcontext primary_;
    Stream lane_;
};
CUcontext Lanes::primary_ = nullptr;

TEST_F(Lanes, Copy_between_memories_of_all_kinds) {
    constexpr std::size_t kBytes = 300'001;
    const CUcontext other = VirtualGpus::make_context(1);
    MUST(cu(cuCtxPushCurrent)(other));
    const CUdeviceptr far = allocate(kBytes);
    CUcontext popped = nullptr;
    MUST(cu(cuCtxPopCurrent)(&popped));
    const CUdeviceptr near = allocate(kBytes);
    CUdeviceptr managed = 0;
    MUST(cu(cuMemAllocManaged)(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
    Pinned pinned;
    ASSERT_EQ(Pinned::acquire(primary_, kBytes, pinned), 0);
    EXPECT_TRUE(pinned.page_locked());
    std::vector<unsigned char> pageable(kBytes);
    void* const places[] = {as_pointer(near), as_pointer(far), as_pointer(managed), pinned.data(), pageable.data()};
    unsigned seed = 0;
    for (void* from : places)
        for (void* to : places) {
            if (from == to)
                continue;
            const std::vector<unsigned char> sent = patterned(kBytes, ++seed);
            std::vector<unsigned char> got(kBytes);
            ASSERT_EQ(lane_.copy(from, sent.data(), kBytes), 0);
            ASSERT_EQ(lane_.copy(to, from, kBytes), 0);
            ASSERT_EQ(lane_.copy(got.data(), to, kBytes), 0);
            ASSERT_EQ(finish(lane_), 0);
            ASSERT_EQ(got, sent);
        }
    MUST(cu(cuMemFree)(managed));
    MUST(cu(cuMemFree)(near));
    MUST(cu(cuCtxDestroy)(other));
}

TEST_F(Lanes, Copy_rows_of_different_pitch_and_nothing_between_them) {
    constexpr std::size_t kWidth = 37;
    constexpr std::size_t kRows = 50;
    constexpr std::size_t kHostPitch = 64;
    constexpr std::size_t kDevicePitch = 101;
    const std::vector<unsigned char> sent = patterned(kHostPitch * kRows, 5);
    const CUdeviceptr address = allocate(kDevicePitch * kRows);
    MUST(cu(cuMemsetD8)(address, 0xee, kDevicePitch * kRows));
    ASSERT_EQ(lane_.wait_for_program(Sync::kLegacy), 0);
    ASSERT_EQ(lane_.copy_2d(as_pointer(address), kDevicePitch, sent.data(), kHostPitch, kWidth, kRows), 0);
    std::vector<unsigned char> back(kHostPitch * kRows, 0xdd);
    ASSERT_EQ(lane_.copy_2d(back.data(), kHostPitch, as_pointer(address), kDevicePitch, kWidth, kRows), 0);
    ASSERT_EQ(finish(lane_), 0);
    const std::vector<unsigned char> device = fetched(address, kDevicePitch * kRows);
    for (std::size_t i = 0; i < device.size(); ++i) {
        const bool inside = i % kDevicePitch < kWidth;
        ASSERT_EQ(device[i], inside ? sent[i / kDevicePitch * kHostPitch + i % kDevicePitch] : 0xee) << i;
    }
    for (std::size_t i = 0; i < back.size(); ++i)
        ASSERT_EQ(back[i], i % kHostPitch < kWidth ? sent[i] : 0xdd) << i;
    MUST(cu(cuMemFree)(address));
}

// A write to device memory that the program's stream does only after a while.
struct Late {
    explicit Late(CUdeviceptr to) : address(to) {}
    void queue(CUstream stream) {
        MUST(cu(cuLaunchHostFunc)(
            stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr));
        MUST(cu(cuMemsetD8Async)(address, 0x5a, 1000, stream));
    }
    CUdeviceptr address;
};

TEST_F(Lanes, Run_after_what_the_program_queued_on_its_default_stream_and_streams_that_synchronise_with_it) {
    const CUdeviceptr address = allocate(1000);
    CUstream blocking = nullptr;
    MUST(cu(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT));
    for (const CUstream stream : {CUstream{nullptr}, blocking, CU_STREAM_PER_THREAD}) {
        MUST(cu(cuMemsetD8)(address, 0, 1000));
        Late(address).queue(stream);
        unsigned char got[1000] = {};
        Pinned pinned;
        ASSERT_EQ(Pinned::acquire(primary_, sizeof got, pinned), 0);
        ASSERT_EQ(lane_.wait_for_program(Sync::kLegacy), 0);
        ASSERT_EQ(lane_.copy(pinned.data(), as_pointer(address), sizeof got), 0);
        bool done = true;
        ASSERT_EQ(lane_.record(), 0);
        ASSERT_EQ(lane_.query(done), 0);
        EXPECT_FALSE(done) << "polling does not wait";
        ASSERT_EQ(finish(lane_), 0);
        std::memcpy(got, pinned.data(), sizeof got);
        EXPECT_EQ(got[0], 0x5a);
        EXPECT_EQ(got[999], 0x5a);
    }
    MUST(cu(cuStreamDestroy)(blocking));
    MUST(cu(cuMemFree)(address));
}

TEST_F(Lanes, Run_after_any_stream_when_the_whole_device_is_waited_for) {
    const CUdeviceptr address = allocate(1000);
    CUstream independent = nullptr;
    MUST(cu(cuStreamCreate)(&independent, CU_STREAM_NON_BLOCKING));
    Late(address).queue(independent);
    ASSERT_EQ(lane_.wait_for_program(Sync::kDevice), 0);
    unsigned char got[1000] = {};
    ASSERT_EQ(lane_.copy(got, as_pointer(address), sizeof got), 0);
    ASSERT_EQ(finish(lane_), 0);
    EXPECT_EQ(got[999], 0x5a);
    MUST(cu(cuStreamDestroy)(independent));
    MUST(cu(cuMemFree)(address));
}

TEST_F(Lanes, Do_not_wait_for_the_programs_streams_unasked) {
    std::atomic<bool> go{false};
    MUST(cu(cuLaunchHostFunc)(
        nullptr,
        [](void* flag) {
            while (!static_cast<std::atomic<bool>*>(flag)->load())
                std::this_thread::yield();
        },
        &go));
    unsigned char to[10] = {};
    Pinned from;
    ASSERT_EQ(Pinned::acquire(primary_, sizeof to, from), 0);
    std::memset(from.data(), 9, sizeof to);
    ASSERT_EQ(lane_.wait_for_program(Sync::kNone), 0);
    ASSERT_EQ(lane_.copy(to, from.data(), sizeof to), 0);
    EXPECT_EQ(finish(lane_), 0);
    EXPECT_EQ(to[9], 9);
    go = true;
    MUST(cu(cuStreamSynchronize)(nullptr));
}

TEST_F(Lanes, Given_back_at_work_are_kept_until_it_is_done) {
    std::atomic<bool> go{false};
    Stream busy;
    ASSERT_EQ(Stream::acquire(primary_, busy), 0);
    const StreamHandle stream = busy.stream();
    MUST(cu(cuLaunchHostFunc)(
        stream,
        [](void* flag) {
            while (!static_cast<std::atomic<bool>*>(flag)->load())
                std::this_thread::yield();
        },
        &go));
    busy = Stream();
    std::vector<Stream> others(kIdleStreams + 2);
    for (Stream& lane : others) {
        ASSERT_EQ(Stream::acquire(primary_, lane), 0);
        EXPECT_NE(lane.stream(), stream);
    }
    go = true;
    MUST(cu(cuStreamSynchronize)(stream));
    ASSERT_EQ(Stream::acquire(primary_, busy), 0);
    EXPECT_EQ(busy.stream(), stream);
}

TEST_F(Lanes, And_memory_of_a_destroyed_context_are_harmless) {
    const CUcontext doomed = VirtualGpus::make_context(1);
    Stream lane;
    Stream idle;
    Pinned pinned;
    Pinned idle_pinned;
    Scratch scratch;
    ASSERT_EQ(Stream::acquire(doomed, lane), 0);
    ASSERT_EQ(Stream::acquire(doomed, idle), 0);
    ASSERT_EQ(Pinned::acquire(doomed, 5000, pinned), 0);
    ASSERT_EQ(Pinned::acquire(doomed, 5000, idle_pinned), 0);
    ASSERT_EQ(Scratch::acquire(doomed, 5000, scratch), 0);
    idle = Stream();
    idle_pinned = Pinned();
    EXPECT_TRUE(lane.alive());
    MUST(cu(cuCtxDestroy)(doomed));
    EXPECT_FALSE(lane.alive());
    std::memset(pinned.data(), 1, 5000);  // staging memory outlives the context
    char byte = 0;
    EXPECT_NE(lane.copy(&byte, pinned.data(), 1), 0);
    EXPECT_NE(lane.record(), 0);
    Stream none;
    EXPECT_NE(Stream::acquire(doomed, none), 0);
    EXPECT_FALSE(none);
    Pinned still;
    EXPECT_EQ(Pinned::acquire(doomed, 100, still), 0) << "pageable will do";
    EXPECT_FALSE(still.page_locked());
}

TEST_F(Lanes, Of_a_primary_context_that_was_reset_are_replaced) {
    CUcontext context = nullptr;
    MUST(cu(cuDevicePrimaryCtxRetain)(&context, 2));
    Stream before;
    Pinned pinned;
    ASSERT_EQ(Stream::acquire(context, before), 0);
    ASSERT_EQ(Pinned::acquire(context, 1 << 20, pinned), 0);
    {
        Stream idle;
        ASSERT_EQ(Stream::acquire(context, idle), 0);
    }
    MUST(cu(cuDevicePrimaryCtxReset)(2));
    EXPECT_FALSE(before.alive());
    Stream refused;
    EXPECT_NE(Stream::acquire(context, refused), 0);
    MUST(cu(cuDevicePrimaryCtxRetain)(&context, 2));
    EXPECT_FALSE(before.alive());
    Stream after;
    ASSERT_EQ(Stream::acquire(context, after), 0);
    EXPECT_TRUE(after.alive());
    before = Stream();
    pinned = Pinned();
    ASSERT_EQ(Pinned::acquire(context, 1 << 20, pinned), 0);
    EXPECT_TRUE(pinned.page_locked());
    std::memset(pinned.data(), 3, 1 << 20);
    std::vector<unsigned char> got(1 << 20);
    ASSERT_EQ(after.copy(got.data(), pinned.data(), got.size()), 0);
    ASSERT_EQ(finish(after), 0);
    EXPECT_EQ(got.back(), 3);
    after = Stream();
    pinned = Pinned();
    release_pools();
    MUST(cu(cuDevicePrimaryCtxReset)(2));
    release_pools();
}

TEST_F(Lanes, And_pinned_memory_return_to_the_system_with_the_pools) {
    std::size_t before = 0;
    std::size_t after = 0;
    std::size_t total = 0;
    lane_ = Stream();
    release_pools();
    MUST(cu(cuMemGetInfo)(&before, &total));
    void* was = nullptr;
    {
        Pinned pinned;
        Scratch scratch;
        Stream lane;
        ASSERT_EQ(Pinned::acquire(primary_, 3 << 20, pinned), 0);
        ASSERT_EQ(Scratch::acquire(primary_, 3 << 20, scratch), 0);
        ASSERT_EQ(Stream::acquire(primary_, lane), 0);
        was = pinned.data();
        EXPECT_EQ(locate(was).kind, Kind::kPinned);
        EXPECT_EQ(locate(scratch.data()).context, primary_);
    }
    EXPECT_EQ(locate(was).kind, Kind::kPinned) << "kept for the next use";
    release_pools();
    EXPECT_EQ(locate(was).kind, Kind::kHost);
    MUST(cu(cuMemGetInfo)(&after, &total));
    EXPECT_EQ(after, before);
}

TEST_F(Lanes, Scratch_memory_is_used_again_and_as_large_as_asked_for) {
    void* first = nullptr;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{5'000'000}, std::size_t{70}, std::size_t{5'000'000}}) {
        Scratch scratch;
        ASSERT_EQ(Scratch::acquire(primary_, bytes, scratch), 0);
        EXPECT_TRUE(scratch);
        EXPECT_EQ(cu(cuMemsetD8)(reinterpret_cast<CUdeviceptr>(scratch.data()), 1, bytes), CUDA_SUCCESS);
        if (bytes == 5'000'000) {
            EXPECT_TRUE(first == nullptr || first == scratch.data());
            first = scratch.data();
        }
    }
    Scratch impossible;
    EXPECT_EQ(Scratch::acquire(primary_, std::size_t{1} << 40, impossible), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_FALSE(impossible);
}

TEST_F(Lanes, May_be_acquired_and_used_by_many_threads) {
    constexpr int kThreads = 8;
    constexpr int kRounds = 40;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&wrong, t] {
            for (int round = 0; round < kRounds; ++round) {
                const std::size_t bytes = 1000 + static_cast<std::size_t>(t * 977 + round * 131);
                Pinned out;
                Pinned in;
                Scratch middle;
                Stream lane;
                if (Pinned::acquire(primary_, bytes, out) != 0 || Pinned::acquire(primary_, bytes, in) != 0 ||
                    Scratch::acquire(primary_, bytes, middle) != 0 || Stream::acquire(primary_, lane) != 0) {
                    ++wrong;
                    return;
                }
                const std::vector<unsigned char> sent = patterned(bytes, static_cast<unsigned>(t * kRounds + round));
                std::memcpy(out.data(), sent.data(), bytes);
                std::memset(in.data(), 0, bytes);
                if (lane.wait_for_program(Sync::kLegacy) != 0 || lane.copy(middle.data(), out.data(), bytes) != 0 ||
                    lane.copy(in.data(), middle.data(), bytes) != 0 || finish(lane) != 0 ||
                    std::memcmp(in.data(), sent.data(), bytes) != 0)
                    ++wrong;
                CUcontext current = primary_;
                if (cu(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || current != nullptr)
                    ++wrong;
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
