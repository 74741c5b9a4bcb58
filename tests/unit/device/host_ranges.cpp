// Memory that is the host's without a question to the driver, and memory of which that may not be said.
#include "device/host_ranges.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <thread>

namespace {

using namespace swy::device;

long initialised = 1;
long zeroed[1000];

bool surely(const void* address) {
    return known_host(address);
}

class HostRanges : public ::testing::Test {
  protected:
    void SetUp() override {
        find_host_ranges();
        if (host_ranges.heap_begin == UINTPTR_MAX || host_ranges.stack_bytes == 0)
            GTEST_SKIP() << "the system does not tell";
    }
};

struct Freed {
    void operator()(void* memory) const { std::free(memory); }
};

TEST_F(HostRanges, Static_data_the_heap_and_the_stack_are_the_hosts) {
    const long local = 0;
    EXPECT_TRUE(surely(&local));
    EXPECT_TRUE(surely(&initialised));
    EXPECT_TRUE(surely(zeroed));
    EXPECT_TRUE(surely(zeroed + 999));
    const std::unique_ptr<void, Freed> small(std::malloc(8));
    EXPECT_TRUE(surely(small.get()));
}

TEST_F(HostRanges, The_heap_is_followed_as_it_grows_and_no_further) {
    auto* const before = static_cast<std::byte*>(sbrk(0));
    EXPECT_FALSE(surely(before));
    ASSERT_NE(sbrk(1 << 20), reinterpret_cast<void*>(-1));
    EXPECT_TRUE(surely(before));
    EXPECT_TRUE(surely(before + (1 << 20) - 1));
    EXPECT_FALSE(surely(before + (1 << 20)));
    ASSERT_NE(sbrk(-(1 << 20)), reinterpret_cast<void*>(-1));
    EXPECT_FALSE(surely(before));
}

TEST_F(HostRanges, Nothing_is_said_of_mapped_memory_null_and_what_lies_beyond_the_stack) {
    constexpr std::size_t kBytes = 1 << 20;
    void* const mapped = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_FALSE(surely(mapped));
    EXPECT_FALSE(surely(static_cast<std::byte*>(mapped) + kBytes - 1));
    munmap(mapped, kBytes);
    EXPECT_FALSE(surely(nullptr));
    EXPECT_FALSE(surely(reinterpret_cast<void*>(host_ranges.stack_begin + kMainStack)));
    EXPECT_FALSE(surely(reinterpret_cast<void*>(host_ranges.stack_begin - 1)));
    EXPECT_FALSE(surely(reinterpret_cast<void*>(UINTPTR_MAX)));
}

// Its own stack is mapped memory as any other.
TEST_F(HostRanges, Another_thread_knows_the_main_threads_stack_alone) {
    void* const mapped = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const long of_main = 0;
    bool own = true;
    bool between = true;
    bool main = false;
    std::thread([&] {
        const long local = 0;
        own = surely(&local);
        between = surely(mapped);
        main = surely(&of_main);
    }).join();
    EXPECT_FALSE(own);
    EXPECT_FALSE(between);
    EXPECT_TRUE(main);
    munmap(mapped, 4096);
}

}  // namespace
