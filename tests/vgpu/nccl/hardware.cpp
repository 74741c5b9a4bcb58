// What the real NCCL does and an easy-going one would not: calls that wait for other ranks, and one thread's groups.
#include <atomic>
#include <chrono>
#include <thread>

#include "../real.hpp"
#include "ranks.hpp"

namespace vgpu::test {
namespace {

constexpr int kLong = 300;                           // ms
constexpr std::size_t kChannelMemory = 26ull << 20;  // bytes

using Clock = std::chrono::steady_clock;

long since(Clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

// Runs `call` on rank 0 at once and on the others after kLong, and returns how long it took on rank 0.
template <typename Call>
long time_while_others_wait(Rank& self, Call call) {
    self.barrier();
    if (self.rank != 0)
        sleep_ms(kLong);
    const Clock::time_point begin = Clock::now();
    call();
    return self.rank == 0 ? since(begin) : kLong;
}

TEST(Waits, Destroy_for_the_other_ranks_of_the_host) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        EXPECT_GE(time_while_others_wait(self, [&] { OK(ncclCommDestroy(comm)); }), kLong / 2);
    });
}

TEST(Waits, Destroy_until_they_have_finalized) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        OK(ncclCommFinalize(comm));
        self.barrier();
        EXPECT_LT(time_while_others_wait(self, [&] { OK(ncclCommDestroy(comm)); }), 10 * kLong);
    });
}

TEST(Waits, Destroy_not_for_a_rank_that_is_gone) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.barrier();
        if (self.rank == 0)
            OK(ncclCommDestroy(comm));
    });
}

TEST(Waits, Abort_for_the_other_ranks_from_2_23_on) {
    for (const char* version : {"2.22.3", "2.28.9"}) {
        Options options;
        options.environment["VGPU_NCCL_VERSION"] = version;
        run_ranks(
            2,
            [](Rank& self) {
                int code = 0;
                ncclGetVersion(&code);
                ncclComm_t comm = self.communicator();
                const long taken = time_while_others_wait(self, [&] { OK(ncclCommAbort(comm)); });
                EXPECT_EQ(taken >= kLong / 2, self.rank != 0 || code >= NCCL_VERSION(2, 23, 0)) << taken << " ms";
            },
            options);
    }
}

TEST(Waits, The_first_message_between_two_ranks_for_its_other_end) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        const Memory buffer(64);
        const auto exchange = [&] {
            OK(self.rank == 0 ? ncclSend(buffer.get(), 4, ncclInt, 1, comm, self.stream)
                              : ncclRecv(buffer.get(), 4, ncclInt, 0, comm, self.stream));
        };
        EXPECT_GE(time_while_others_wait(self, exchange), kLong / 2);
        if (self.rank == 0)
            EXPECT_LT(time_while_others_wait(self, exchange), kLong / 2);
        else
            time_while_others_wait(self, exchange);
        CU_OK(cuStreamSynchronize(self.stream));
        OK(ncclCommDestroy(comm));
    });
}

TEST(Waits, The_first_sum_of_floats_for_all_ranks_unless_told_otherwise) {
    for (const char* connect : {"0", "1"}) {
        Options options;
        options.environment["NCCL_RUNTIME_CONNECT"] = connect;
        run_ranks(
            2,
            [](Rank& self) {
                ncclComm_t comm = self.communicator();
                const Memory buffer(64);
                const auto call = [&](ncclDataType_t type) {
                    return [&, type] {
                        OK(ncclAllReduce(buffer.get(), buffer.get(), 4, type, ncclSum, comm, self.stream));
                    };
                };
                const bool late = std::string(std::getenv("NCCL_RUNTIME_CONNECT")) == "1";
                time_while_others_wait(self, call(ncclInt));  // connects another algorithm
                const long first = time_while_others_wait(self, call(ncclFloat));
                const long second = time_while_others_wait(self, call(ncclFloat));
                if (self.rank == 0) {
                    EXPECT_EQ(first >= kLong / 2, late) << first << " ms";
                    EXPECT_LT(second, kLong / 2);
                }
                CU_OK(cuStreamSynchronize(self.stream));
                OK(ncclCommDestroy(comm));
            },
            options);
    }
}

// What NCCL took of the device is there from the making of a communicator to its end.
TEST(Memory, Of_a_communicator_is_the_devices) {
    VIRTUAL_ONLY("channels of one size");
    const auto free_memory = [] {
        std::size_t free = 0, total = 0;
        EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
        return free;
    };
    run_ranks(2, [&](Rank& self) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.maxCTAs = 4;
        const std::size_t before = free_memory();
        ncclComm_t comm = self.communicator(&config), child = nullptr;
        EXPECT_EQ(before - free_memory(), 4 * kChannelMemory);
        OK(ncclCommSplit(comm, 0, self.rank, &child, &config));
        EXPECT_EQ(before - free_memory(), 8 * kChannelMemory);
        OK(ncclCommDestroy(child));
        OK(ncclCommAbort(comm));
        EXPECT_EQ(free_memory(), before);
    });
}

TEST(Memory, That_is_not_there_for_one_rank_ends_the_making_for_all) {
    VIRTUAL_ONLY("VGPU_MEMORY");
    Options options;
    options.environment = {{"VGPU_MEMORY", "1G"}, {"NCCL_DEBUG", "WARN"}};
    const auto ends = run_ranks(
        2,
        [](Rank& self) {
            const Memory own(self.rank == 1 ? 900u << 20 : 1u << 20);
            const ncclUniqueId id = self.unique_id();
            ncclComm_t comm = nullptr;
            EXPECT_EQ(ncclCommInitRank(&comm, self.ranks, id, self.rank),
                      self.rank == 1 ? ncclUnhandledCudaError : ncclRemoteError);
        },
        options);
    expect_said({ends[1]}, {" NCCL WARN Failed to allocate 872415232 bytes for 32 channels"});
}

// Before 2.27 a thread has room for one group of non-blocking communicators.
TEST(Groups, Of_non_blocking_communicators_one_a_thread_before_2_27) {
    for (const char* version : {"2.18.3", "2.21.5", "2.27.3"}) {
        Options options;
        options.environment["VGPU_NCCL_VERSION"] = version;
        run_ranks(
            2,
            [](Rank& self) {
                int code = 0;
                ncclGetVersion(&code);
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                config.blocking = 0;
                const ncclUniqueId ids[2] = {self.unique_id(), self.unique_id()};
                self.barrier();
                if (self.rank == 1)
                    sleep_ms(kLong);
                ncclComm_t comms[2] = {};
                const Clock::time_point begin = Clock::now();
                EXPECT_EQ(ncclCommInitRankConfig(&comms[0], 2, ids[0], self.rank, &config), ncclInProgress);
                const ncclResult_t second = ncclCommInitRankConfig(&comms[1], 2, ids[1], self.rank, &config);
                if (self.rank == 0) {
                    EXPECT_EQ(second, code < NCCL_VERSION(2, 19, 0) ? ncclInvalidUsage : ncclInProgress);
                    EXPECT_EQ(since(begin) >= kLong / 2,
                              code >= NCCL_VERSION(2, 19, 0) && code < NCCL_VERSION(2, 27, 0))
                        << since(begin) << " ms";
                }
                self.barrier();
            },
            options);
    }
}

}  // namespace
}  // namespace vgpu::test
