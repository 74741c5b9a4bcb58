// What goes wrong: hangs and how they end, mismatches, duplicate devices, dead peers, injected faults.
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "ranks.hpp"

namespace vgpu::test {
namespace {

std::string both(const std::vector<Ended>& ends) {
    std::string all;
    for (const Ended& end : ends)
        all += end.output;
    return all;
}

void expect_said(const std::vector<Ended>& ends, const std::vector<std::string>& words) {
    const std::string output = both(ends);
    for (const std::string& word : words)
        EXPECT_NE(output.find(word), std::string::npos) << "no \"" << word << "\" in\n" << output;
}

Options strict() {
    Options options;
    options.environment = {{"VGPU_STRICT", "1"}};
    return options;
}

// Two hosts: the first ranks on one, the others on another.
Options hosts(int first) {
    Options options;
    for (int rank = 0; rank < 8; ++rank)
        options.environment_of[rank] = {{"NCCL_HOSTID", rank < first ? "here" : "there"}};
    return options;
}

// What two ranks launch, each a function of its communicator.
using Act = std::function<void(Rank&, ncclComm_t, void* buffer)>;

// Each rank acts; then every rank has the error, its stream is idle, and abort returns.
std::vector<Ended> expect_error(int ranks, const Act& act, Options options, ncclResult_t error = ncclInvalidUsage) {
    return run_ranks(
        ranks,
        [&](Rank& self) {
            ncclComm_t comm = self.communicator();
            const Memory buffer(1 << 16);
            act(self, comm, buffer.get());
            EXPECT_EQ(error_of(comm), error);
            EXPECT_TRUE(drained(self.stream, 5000));
            EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream), error);
            self.barrier();
            OK(ncclCommAbort(comm));
        },
        options);
}

// Each rank acts; the streams do not drain until the communicator is aborted.
void expect_hang(int ranks, const Act& act, Options options = {}) {
    run_ranks(
        ranks,
        [&](Rank& self) {
            ncclComm_t comm = self.communicator();
            const Memory buffer(1 << 16);
            act(self, comm, buffer.get());
            EXPECT_FALSE(drained(self.stream, 300));
            ncclResult_t state = ncclInternalError;
            OK(ncclCommGetAsyncError(comm, &state));
            EXPECT_EQ(state, ncclSuccess) << "nobody tells";
            self.barrier();
            OK(ncclCommAbort(comm));
            EXPECT_TRUE(drained(self.stream, 5000));
        },
        options);
}

void exchange_without_group(Rank& self, ncclComm_t comm, void* buffer) {
    const int next = (self.rank + 1) % self.ranks;
    const int before = (self.rank + self.ranks - 1) % self.ranks;
    OK(ncclSend(buffer, 100, ncclFloat, next, comm, self.stream));
    OK(ncclRecv(buffer, 100, ncclFloat, before, comm, self.stream));
}

void other_order(Rank& self, ncclComm_t comm, void* buffer) {
    const bool first = self.rank == 0;
    for (const bool reduce : {first, !first}) {
        OK(reduce ? ncclAllReduce(buffer, buffer, 64, ncclInt, ncclSum, comm, self.stream)
                  : ncclBroadcast(buffer, buffer, 64, ncclInt, 0, comm, self.stream));
    }
}

void other_count(Rank& self, ncclComm_t comm, void* buffer) {
    const std::size_t count = self.rank == 0 ? 64 : 65;
    OK(ncclAllReduce(buffer, buffer, count, ncclInt, ncclSum, comm, self.stream));
}

TEST(Hangs, Ungrouped_mutual_sends_hang_until_they_are_aborted) {
    expect_hang(2, exchange_without_group);
}
TEST(Hangs, A_ring_of_ungrouped_sends_hangs_until_it_is_aborted) {
    expect_hang(3, exchange_without_group);
}
TEST(Hangs, Collectives_in_different_orders_hang_until_they_are_aborted) {
    expect_hang(2, other_order);
}
TEST(Hangs, Different_counts_hang_until_they_are_aborted) {
    expect_hang(2, other_count);
}
TEST(Hangs, The_same_between_hosts) {
    expect_hang(3, exchange_without_group, hosts(1));
}

TEST(Strict, Ungrouped_mutual_sends_are_named) {
    expect_said(expect_error(2, exchange_without_group, strict()),
                {"these calls wait for each other", "rank 0 in ncclSend(count 100, float32, peer 1)",
                 "rank 1 in ncclSend(count 100, float32, peer 0)"});
}
TEST(Strict, A_ring_of_ungrouped_sends_is_named) {
    expect_said(expect_error(5, exchange_without_group, strict()),
                {"these calls wait for each other", "rank 4 in ncclSend"});
}
TEST(Strict, A_ring_of_ungrouped_sends_between_hosts_is_named) {
    Options options = hosts(1);
    options.environment = strict().environment;
    expect_said(expect_error(3, exchange_without_group, options), {"these calls wait for each other"});
}
TEST(Strict, Collectives_in_different_orders_are_named) {
    expect_said(expect_error(2, other_order, strict()), {"ncclAllReduce(count 64", "ncclBroadcast(count 64"});
}
TEST(Strict, Different_counts_are_named_to_all_ranks) {
    expect_said(expect_error(3, other_count, strict()),
                {"ncclAllReduce(count 64, int32, sum)", "ncclAllReduce(count 65, int32, sum)"});
}
TEST(Strict, Different_operators_types_and_roots_are_named) {
    for (const int what : {0, 1, 2}) {
        if (std::getenv("VGPU_TEST_RANK") != nullptr && std::atoi(std::getenv("WHAT")) != what)
            continue;
        Options options = strict();
        options.environment["WHAT"] = std::to_string(what);
        const auto ends = expect_error(
            2,
            [&](Rank& self, ncclComm_t comm, void* b) {
                const bool first = self.rank == 0;
                if (what == 0) {
                    OK(ncclAllReduce(b, b, 8, ncclInt, first ? ncclSum : ncclMax, comm, self.stream));
                }
                if (what == 1)
                    OK(ncclAllReduce(b, b, 8, first ? ncclInt : ncclFloat, ncclSum, comm, self.stream));
                if (what == 2) {
                    OK(ncclBroadcast(b, b, 8, ncclInt, self.rank, comm, self.stream));
                }
            },
            options);
        expect_said(ends, what == 0   ? std::vector<std::string>{"int32, sum", "int32, max"}
                          : what == 1 ? std::vector<std::string>{"int32, sum", "float32, sum"}
                                      : std::vector<std::string>{"int32, root 0", "int32, root 1"});
    }
}
TEST(Strict, A_receive_of_another_count_is_named) {
    expect_said(expect_error(
                    2,
                    [](Rank& self, ncclComm_t comm, void* b) {
                        OK(self.rank == 0 ? ncclSend(b, 10, ncclInt, 1, comm, self.stream)
                                          : ncclRecv(b, 11, ncclInt, 0, comm, self.stream));
                    },
                    strict()),
                {"ncclSend(count 10", "ncclRecv(count 11"});
}
TEST(Strict, A_collective_against_a_send_is_named) {
    expect_said(expect_error(
                    2,
                    [](Rank& self, ncclComm_t comm, void* b) {
                        OK(self.rank == 0 ? ncclSend(b, 10, ncclInt, 1, comm, self.stream)
                                          : ncclAllReduce(b, b, 10, ncclInt, ncclSum, comm, self.stream));
                    },
                    strict()),
                {"ncclSend(count 10", "ncclAllReduce(count 10"});
}
TEST(Strict, A_rank_that_is_late_is_no_mistake) {
    run_ranks(
        3,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            const Memory buffer(64);
            if (self.rank == 2)
                sleep_ms(1000);
            for (int i = 0; i < 20; ++i) {
                OK(ncclAllReduce(buffer.get(), buffer.get(), 4, ncclInt, ncclSum, comm, self.stream));
                if (self.rank == i % 3)
                    sleep_ms(i % 5 == 0 ? 150 : 0);
            }
            CU_OK(cuStreamSynchronize(self.stream));
            OK(ncclCommDestroy(comm));
        },
        strict());
}

TEST(Abort, Returns_from_another_thread_and_lets_queued_work_drain) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
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
        std::thread([&] { EXPECT_EQ(ncclCommAbort(comm), ncclSuccess); }).join();
        waiting.join();
        CU_OK(cuStreamSynchronize(self.stream));
        self.barrier();
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
            later.join();
        }
        self.barrier();
    });
}

TEST(Death, Of_a_peer_on_the_same_host_is_reported_by_nobody) {
    const auto ends = run_ranks(
        2,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
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
        hosts(2), false);
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
            if (self.rank == 0) {
                OK(ncclCommDestroy(comm));
            }
            self.barrier();
            sleep_ms(100);
            if (self.rank != 0) {
                ncclResult_t state = ncclInternalError;
                OK(ncclCommGetAsyncError(comm, &state));
                EXPECT_EQ(state, ncclSuccess) << "a peer that has left in order is no error";
                OK(ncclCommDestroy(comm));
            }
            OK(ncclCommDestroy(child));
        },
        hosts(2));
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
        Options options = asked ? Options{} : hosts(1);
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
