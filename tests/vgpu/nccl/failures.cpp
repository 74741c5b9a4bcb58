// Failures from outside: aborts, dead peers, hosts, duplicate devices, injected faults; and the messages about them.
#include <csignal>
#include <fstream>
#include <thread>

#include "ranks.hpp"

namespace vgpu::test {
namespace {

TEST(Abort, Returns_from_another_thread_and_lets_queued_work_drain) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        const Memory buffer(64);
        if (self.rank == 1) {
            self.barrier();
            OK(ncclCommAbort(comm));
            return;
        }
        CUstream other = nullptr;
        CU_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 3; ++i) {
            OK(ncclAllReduce(buffer.get(), buffer.get(), 4, ncclInt, ncclSum, comm, self.stream));
            OK(ncclRecv(buffer.get(), 4, ncclInt, 1, comm, other));
        }
        CUcontext context = nullptr;
        CU_OK(cuCtxGetCurrent(&context));
        std::thread waiting([&] {
            EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
            EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
        });
        sleep_ms(100);
        std::thread aborting([&] { EXPECT_EQ(ncclCommAbort(comm), ncclSuccess); });
        waiting.join();
        CU_OK(cuStreamSynchronize(self.stream));
        self.barrier();
        aborting.join();  // which waits for the other rank
    });
}

TEST(Abort, Ends_an_initialization_that_waits_for_a_rank_that_never_comes) {
    run_ranks(1, [](Rank& self) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        const ncclUniqueId id = self.unique_id();
        ncclComm_t comm = nullptr;
        EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
        sleep_ms(100);
        OK(ncclCommAbort(comm));
        EXPECT_EQ(ncclCommAbort(comm), ncclInvalidArgument);
    });
}

TEST(Abort, Of_a_blocking_split_that_never_completes_ends_it) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        if (self.rank == 0) {
            std::thread later([&] {
                sleep_ms(100);
                EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
            });
            ncclComm_t child = nullptr;
            EXPECT_NE(ncclCommSplit(comm, 0, 0, &child, nullptr), ncclSuccess);
            EXPECT_EQ(child, nullptr);
            self.post(1, 1);
            later.join();
        } else {
            self.await(1);
            OK(ncclCommAbort(comm));  // for which the other rank's abort waits
        }
        self.barrier();
    });
}

TEST(Death, Of_a_peer_on_the_same_host_is_reported_by_nobody) {
    const auto ends = run_ranks(
        2,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            self.connect(comm);
            const Memory buffer(64);
            self.barrier();
            if (self.rank == 1)
                raise(SIGKILL);
            OK(ncclAllReduce(buffer.get(), buffer.get(), 4, ncclInt, ncclSum, comm, self.stream));
            EXPECT_FALSE(drained(self.stream, 1000));
            ncclResult_t state = ncclInternalError;
            OK(ncclCommGetAsyncError(comm, &state));
            EXPECT_EQ(state, ncclSuccess);
            OK(ncclCommAbort(comm));
            EXPECT_TRUE(drained(self.stream, 5000));
        },
        {}, false);
    EXPECT_TRUE(ends[0].passed()) << ends[0].output;
}

TEST(Death, Of_a_peer_on_another_host_is_a_remote_error_and_the_operation_waits_for_abort) {
    const auto ends = run_ranks(
        3,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            self.connect(comm);
            const Memory buffer(64);
            if (self.rank == 2) {
                self.await(1);
                self.await(2);
                raise(SIGKILL);
            }
            OK(ncclAllReduce(buffer.get(), buffer.get(), 4, ncclInt, ncclSum, comm, self.stream));
            self.post(1 + self.rank, 1);
            EXPECT_EQ(error_of(comm), ncclRemoteError);
            EXPECT_FALSE(drained(self.stream, 200));
            OK(ncclCommAbort(comm));
            EXPECT_TRUE(drained(self.stream, 5000));
        },
        two_hosts(2), false);
    EXPECT_TRUE(ends[0].passed()) << ends[0].output;
    EXPECT_TRUE(ends[1].passed()) << ends[1].output;
}

TEST(Hosts, Exchange_over_tcp_and_leave_without_an_error) {
    run_ranks(
        5,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            for (const std::size_t count : {std::size_t{3}, std::size_t{500001}}) {
                const Memory buffer(std::vector<double>(count, self.rank + 0.5));
                const Memory in(count * sizeof(double));
                OK(ncclAllReduce(buffer.get(), buffer.get(), count, ncclDouble, ncclSum, comm, self.stream));
                OK(ncclGroupStart());
                OK(ncclSend(buffer.get(), count, ncclDouble, (self.rank + 1) % 5, comm, self.stream));
                OK(ncclRecv(in.get(), count, ncclDouble, (self.rank + 4) % 5, comm, self.stream));
                OK(ncclGroupEnd());
                CU_OK(cuStreamSynchronize(self.stream));
                EXPECT_EQ(in.read<double>(), std::vector<double>(count, 12.5));
            }
            ncclComm_t child = nullptr;
            OK(ncclCommSplit(comm, self.rank % 2, 0, &child, nullptr));
            if (self.rank < 2) {  // all of one host, who wait for each other
                OK(ncclCommDestroy(comm));
            }
            self.barrier();
            sleep_ms(100);
            if (self.rank >= 2) {
                ncclResult_t state = ncclInternalError;
                OK(ncclCommGetAsyncError(comm, &state));
                EXPECT_EQ(state, ncclSuccess) << "a peer that has left in order is no error";
                OK(ncclCommDestroy(comm));
            }
            OK(ncclCommDestroy(child));
        },
        two_hosts(2));
}

TEST(Duplicates, Two_ranks_on_one_device_are_refused_with_nccls_words) {
    Options options;
    options.device = [](int rank) { return rank == 2 ? 0 : rank; };
    options.environment = {{"NCCL_DEBUG", "WARN"}};
    const auto ends = run_ranks(
        3,
        [](Rank& self) {
            ncclComm_t comm = reinterpret_cast<ncclComm_t>(1);
            const ncclUniqueId id = self.unique_id();
            EXPECT_EQ(ncclCommInitRank(&comm, self.ranks, id, self.rank),
                      self.rank == 1 ? ncclRemoteError : ncclInvalidUsage);
            EXPECT_EQ(comm, nullptr);
            if (self.rank != 1) {
                EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU detected"), std::string::npos);
            }
            self.barrier();
        },
        options);
    expect_said({ends[0]}, {" NCCL WARN Duplicate GPU detected : rank 0 and rank 2 both on CUDA device "});
    expect_said({ends[2]}, {" NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device "});
}

TEST(Duplicates, Are_allowed_when_asked_and_on_different_hosts) {
    for (const bool asked : {true, false}) {
        if (std::getenv("VGPU_TEST_RANK") != nullptr && asked != (std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") != nullptr))
            continue;
        Options options = asked ? Options{} : two_hosts(1);
        options.device = [](int) { return 0; };
        if (asked)
            options.environment = {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}};
        run_ranks(
            2,
            [](Rank& self) {
                ncclComm_t comm = self.communicator();
                const Memory buffer(std::vector<int>{self.rank + 1});
                OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
                CU_OK(cuStreamSynchronize(self.stream));
                EXPECT_EQ(buffer.read<int>()[0], 3);
                OK(ncclCommDestroy(comm));
            },
            options);
    }
}

TEST(Faults, An_injected_error_is_returned_at_the_call_that_is_named) {
    Options options;
    options.environment = {{"VGPU_FAULTS", "ncclAllReduce@2=ncclSystemError;ncclCommSplit@1=ncclInternalError"}};
    run_ranks(
        1,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            ncclComm_t child = nullptr;
            const Memory buffer(64);
            OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
            EXPECT_EQ(pncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream),
                      ncclSystemError);
            OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
            EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, nullptr), ncclInternalError);
            OK(ncclCommDestroy(comm));
        },
        options);
}

TEST(Faults, An_injected_hang_is_accepted_and_ends_with_abort) {
    Options options;
    options.environment = {{"VGPU_FAULTS", "ncclBroadcast@1=hang"}};
    run_ranks(
        1,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            const Memory buffer(64);
            OK(ncclBroadcast(buffer.get(), buffer.get(), 1, ncclInt, 0, comm, self.stream));
            EXPECT_FALSE(drained(self.stream, 200));
            OK(ncclCommAbort(comm));
            EXPECT_TRUE(drained(self.stream, 5000));
        },
        options);
}

TEST(Versions, An_older_version_is_reported_and_lacks_what_came_later) {
    Options options;
    options.environment = {{"VGPU_NCCL_VERSION", "2.18.3"}};
    run_ranks(
        1,
        [](Rank& self) {
            int version = 0;
            OK(ncclGetVersion(&version));
            EXPECT_EQ(version, 21803);
            ncclComm_t comm = self.communicator();
            const Memory buffer(64);
            void* memory = nullptr;
            EXPECT_EQ(ncclAlltoAll(buffer.get(), buffer.get(), 1, ncclInt, comm, self.stream), ncclInvalidUsage);
            EXPECT_EQ(ncclMemAlloc(&memory, 64), ncclInvalidUsage);
            OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
            OK(ncclCommDestroy(comm));
        },
        options);
}

TEST(Log, Has_a_line_for_the_launch_the_start_and_the_end_of_each_operation) {
    const std::string prefix = testing::TempDir() + "vgpu-nccl-log";
    Options options;
    options.environment = {{"VGPU_LOG", prefix}};
    run_ranks(
        1,
        [&](Rank& self) {
            ncclComm_t comm = self.communicator();
            const Memory buffer(64);
            for (int i = 0; i < 3; ++i) {
                OK(ncclAllReduce(buffer.get(), buffer.get(), 5, ncclFloat, ncclMax, comm, self.stream));
            }
            CU_OK(cuStreamSynchronize(self.stream));
            OK(ncclCommDestroy(comm));
            std::ifstream file(prefix + "." + std::to_string(getpid()));
            std::map<std::string, int> phases;
            for (std::string line; std::getline(file, line);)
                for (const char* phase : {"launch", "start", "end"})
                    if (line.find("ncclAllReduce") != std::string::npos && line.find(phase) != std::string::npos &&
                        line.find("\"count\": 5") != std::string::npos &&
                        line.find("\"reduction\": \"max\"") != std::string::npos)
                        ++phases[phase];
            EXPECT_EQ(phases["launch"], 3);
            EXPECT_EQ(phases["start"], 3);
            EXPECT_EQ(phases["end"], 3);
            std::remove((prefix + "." + std::to_string(getpid())).c_str());
        },
        options);
}

}  // namespace
}  // namespace vgpu::test
