// Making, splitting, shrinking and ending communicators.
#include <dirent.h>

#include <fstream>
#include <set>
#include <thread>

#include "ranks.hpp"

namespace vgpu::test {
namespace {

// The sum of `value` over the communicator's ranks, or -1.
int sum_over(ncclComm_t comm, int value, CUstream stream) {
    const Memory buffer(std::vector<int>{value});
    EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, stream), ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    return buffer.read<int>()[0];
}

std::size_t open_files() {
    std::size_t count = 0;
    DIR* folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr)
        ++count;
    closedir(folder);
    return count;
}

std::size_t status_number(const std::string& field) {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;)
        if (word == field + ":") {
            std::size_t number = 0;
            file >> number;
            return number;
        }
    return 0;
}

TEST(Communicators, Know_their_size_rank_and_device) {
    Options options;
    options.device = [](int rank) { return 3 - rank; };
    run_ranks(
        3,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            int count = 0, rank = -1, device = -1, version = 0;
            OK(ncclCommCount(comm, &count));
            OK(ncclCommUserRank(comm, &rank));
            OK(ncclCommCuDevice(comm, &device));
            OK(ncclGetVersion(&version));
            EXPECT_EQ(count, 3);
            EXPECT_EQ(rank, self.rank);
            EXPECT_EQ(device, 3 - self.rank);
            EXPECT_EQ(version, 22809);
            OK(ncclCommDestroy(comm));
            EXPECT_EQ(ncclCommCount(comm, &count), ncclInvalidArgument);
            OK(ncclCommDestroy(nullptr));
        },
        options);
}

TEST(Communicators, Wrong_arguments_are_invalid) {
    run_ranks(1, [](Rank& self) {
        ncclComm_t comm = nullptr;
        ncclUniqueId id = self.unique_id();
        EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
        EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
        EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
        ncclConfig_t config{};
        EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
        comm = self.communicator();
        const Memory buffer(64);
        EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclNumTypes, ncclSum, comm, self.stream),
                  ncclInvalidArgument);
        EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclNumOps, comm, self.stream),
                  ncclInvalidArgument);
        EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, nullptr, self.stream),
                  ncclInvalidArgument);
        EXPECT_EQ(ncclBroadcast(buffer.get(), buffer.get(), 1, ncclInt, 1, comm, self.stream), ncclInvalidArgument);
        EXPECT_EQ(ncclSend(buffer.get(), 1, ncclInt, -1, comm, self.stream), ncclInvalidArgument);
        EXPECT_EQ(sum_over(comm, 5, self.stream), 5);
        OK(ncclCommDestroy(comm));
    });
}

TEST(Communicators, One_thread_drives_several_devices_with_init_all) {
    run_ranks(1, [](Rank&) {
        ncclComm_t comms[4];
        OK(ncclCommInitAll(comms, 4, nullptr));
        std::vector<CUstream> streams(4);
        std::vector<std::unique_ptr<Memory>> buffers;
        for (int i = 0; i < 4; ++i) {
            CUcontext context = nullptr;
            CU_OK(cuDevicePrimaryCtxRetain(&context, i));
            CU_OK(cuCtxSetCurrent(context));
            CU_OK(cuStreamCreate(&streams[static_cast<std::size_t>(i)], CU_STREAM_NON_BLOCKING));
            buffers.push_back(std::make_unique<Memory>(std::vector<int>{i + 1}));
        }
        OK(ncclGroupStart());
        for (std::size_t i = 0; i < 4; ++i)
            OK(ncclAllReduce(buffers[i]->get(), buffers[i]->get(), 1, ncclInt, ncclSum, comms[i], streams[i]));
        OK(ncclGroupEnd());
        for (std::size_t i = 0; i < 4; ++i) {
            CU_OK(cuStreamSynchronize(streams[i]));
            EXPECT_EQ(buffers[i]->read<int>()[0], 10);
        }
        for (const ncclComm_t comm : comms)
            OK(ncclCommFinalize(comm));
        for (const ncclComm_t comm : comms)
            OK(ncclCommDestroy(comm));
    });
}

TEST(Communicators, One_rank_alone_has_no_average_of_floats_of_8_bits) {
    run_ranks(1, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        const Memory data(std::vector<unsigned char>(16, 0x38));
        ncclRedOp_t scaled{};
        unsigned char two = 0x40;
        OK(ncclRedOpCreatePreMulSum(&scaled, &two, ncclFloat8e4m3, ncclScalarHostImmediate, comm));
        for (const ncclRedOp_t op : {ncclAvg, scaled})
            EXPECT_EQ(ncclAllReduce(data.get(), data.get(), 16, ncclFloat8e4m3, op, comm, self.stream),
                      ncclInvalidArgument);
        OK(ncclAllReduce(data.get(), data.get(), 16, ncclFloat8e4m3, ncclSum, comm, self.stream));
        OK(ncclAllReduce(data.get(), data.get(), 8, ncclFloat16, ncclAvg, comm, self.stream));
        CU_OK(cuStreamSynchronize(self.stream));
        EXPECT_EQ(data.read<unsigned char>(), std::vector<unsigned char>(16, 0x38));
        OK(ncclCommDestroy(comm));
    });
}

TEST(Communicators, Threads_of_one_process_and_other_processes_share_one_communicator) {
    run_ranks(2, [](Rank& self) {
        const ncclUniqueId id = self.unique_id(1);
        const auto one = [&](int local) {
            CUcontext context = nullptr;
            const int rank = self.rank * 2 + local;
            EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, rank), CUDA_SUCCESS);
            EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
            CUstream stream = nullptr;
            EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
            ncclComm_t comm = nullptr;
            EXPECT_EQ(ncclCommInitRank(&comm, 4, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
            for (int i = 0; i < 50; ++i)
                ASSERT_EQ(sum_over(comm, rank + i, stream), 6 + 4 * i);
            EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
        };
        std::thread other(one, 1);
        one(0);
        other.join();
    });
}

TEST(Communicators, Several_ids_make_one_communicator) {
    run_ranks(4, [](Rank& self) {
        ncclUniqueId ids[2] = {self.unique_id(0), self.unique_id(2)};
        ncclComm_t comm = nullptr;
        OK(ncclCommInitRankScalable(&comm, self.ranks, self.rank, 2, ids, nullptr));
        EXPECT_EQ(sum_over(comm, self.rank, self.stream), 6);
        OK(ncclCommDestroy(comm));
    });
}

TEST(Communicators, Ranks_that_disagree_on_their_number_get_an_error) {
    run_ranks(2, [](Rank& self) {
        const ncclUniqueId id = self.unique_id();
        ncclComm_t comm = nullptr;
        if (self.rank == 1)
            self.await(1);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        const ncclResult_t started = ncclCommInitRankConfig(&comm, self.rank == 0 ? 2 : 3, id, self.rank, &config);
        EXPECT_EQ(started, ncclInProgress);
        if (self.rank == 0) {
            sleep_ms(200);
            self.post(1, 1);
        } else {
            EXPECT_EQ(settled(comm), ncclInvalidUsage);
        }
        self.barrier();
        OK(ncclCommAbort(comm));
    });
}

TEST(Split, Gives_each_color_its_communicator_in_the_order_of_the_keys) {
    run_ranks(5, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        ncclComm_t child = nullptr;
        const int color = self.rank == 4 ? NCCL_SPLIT_NOCOLOR : self.rank % 2;
        OK(ncclCommSplit(comm, color, -self.rank, &child, nullptr));
        if (self.rank == 4) {
            EXPECT_EQ(child, nullptr);
        } else {
            int rank = -1;
            OK(ncclCommUserRank(child, &rank));
            EXPECT_EQ(rank, self.rank < 2 ? 1 : 0);
            EXPECT_EQ(sum_over(child, self.rank, self.stream), self.rank % 2 == 0 ? 2 : 4);
            ncclComm_t grandchild = nullptr;
            OK(ncclCommSplit(child, 7, 0, &grandchild, nullptr));
            OK(ncclCommDestroy(child));
            EXPECT_EQ(sum_over(grandchild, 1, self.stream), 2);
            OK(ncclCommDestroy(grandchild));
        }
        EXPECT_EQ(sum_over(comm, 1, self.stream), 5);
        OK(ncclCommDestroy(comm));
    });
}

TEST(Split, Children_that_share_resources_keep_one_order_with_their_parent) {
    run_ranks(3, [](Rank& self) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.splitShare = 1;
        ncclComm_t comm = self.communicator(&config);
        ncclComm_t child = nullptr;
        OK(ncclCommSplit(comm, self.rank == 2 ? 1 : 0, 2 - self.rank, &child, nullptr));
        CUstream other = nullptr;
        CU_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        const Memory buffer(std::vector<int>{self.rank + 1});
        static std::atomic<bool> go{false};
        CU_OK(cuLaunchHostFunc(
            self.stream,
            [](void*) {
                while (!go)
                    sleep_ms(1);
            },
            nullptr));
        OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
        OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, child, other));
        EXPECT_FALSE(drained(other, 200));
        go = true;
        CU_OK(cuStreamSynchronize(other));
        EXPECT_EQ(buffer.read<int>()[0], self.rank == 2 ? 6 : 12);
        OK(ncclCommDestroy(comm));
        EXPECT_EQ(sum_over(child, 1, self.stream), self.rank == 2 ? 1 : 2);
        OK(ncclCommDestroy(child));
    });
}

TEST(Shrink, Leaves_the_excluded_ranks_out_even_when_they_are_gone) {
    run_ranks(4, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        EXPECT_EQ(sum_over(comm, 1, self.stream), 4);
        self.barrier();
        int excluded[] = {0, 2};
        ncclComm_t child = nullptr;
        if (self.rank % 2 == 0) {
            OK(ncclCommAbort(comm));
            return;
        }
        // An operation that waits for the ranks that have gone is ended first.
        const Memory buffer(64);
        OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
        OK(ncclCommShrink(comm, excluded, 2, &child, nullptr, NCCL_SHRINK_ABORT));
        int rank = -1;
        OK(ncclCommUserRank(child, &rank));
        EXPECT_EQ(rank, self.rank / 2);
        EXPECT_EQ(sum_over(child, self.rank, self.stream), 4);
        OK(ncclCommDestroy(comm));
        OK(ncclCommDestroy(child));
    });
}

TEST(Revoke, Ends_what_hangs_and_allows_a_split) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        const Memory buffer(64);
        if (self.rank == 0) {
            OK(ncclSend(buffer.get(), 4, ncclInt, 1, comm, self.stream));
            EXPECT_FALSE(drained(self.stream, 100));
        }
        OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
        EXPECT_TRUE(drained(self.stream, 5000));
        EXPECT_EQ(ncclSend(buffer.get(), 4, ncclInt, 1, comm, self.stream), ncclInvalidUsage);
        EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidUsage);
        ncclComm_t child = nullptr;
        OK(ncclCommSplit(comm, 0, 0, &child, nullptr));
        EXPECT_EQ(sum_over(child, 3, self.stream), 6);
        OK(ncclCommDestroy(child));
        OK(ncclCommDestroy(comm));
    });
}

TEST(NonBlocking, Every_step_is_in_progress_first_and_settles_in_the_background) {
    run_ranks(3, [](Rank& self) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        const ncclUniqueId id = self.unique_id();
        ncclComm_t comm = nullptr;
        if (self.rank == 2)
            self.await(1);
        EXPECT_EQ(ncclCommInitRankConfig(&comm, self.ranks, id, self.rank, &config), ncclInProgress);
        ASSERT_NE(comm, nullptr);
        const Memory buffer(std::vector<int>{self.rank});
        if (self.rank == 0) {
            ncclResult_t state = ncclSuccess;
            sleep_ms(50);
            OK(ncclCommGetAsyncError(comm, &state));
            EXPECT_EQ(state, ncclInProgress) << "rank 2 has not come yet";
            EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream),
                      ncclInvalidArgument);
            self.post(1, 1);
        }
        ASSERT_EQ(settled(comm), ncclSuccess);
        EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream), ncclInProgress);
        ASSERT_EQ(settled(comm), ncclSuccess);
        CU_OK(cuStreamSynchronize(self.stream));
        EXPECT_EQ(buffer.read<int>()[0], 3);
        ncclComm_t child = nullptr;
        if (self.rank == 2)
            self.await(2);
        EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, nullptr), ncclInProgress);
        if (self.rank == 0) {
            EXPECT_EQ(child, nullptr) << "rank 2 has not come yet";
            EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream),
                      ncclInvalidArgument)
                << "nor can the parent be used";
            self.post(2, 1);
        }
        ASSERT_EQ(settled(comm), ncclSuccess);
        ASSERT_NE(child, nullptr);
        ASSERT_EQ(settled(child), ncclSuccess);
        EXPECT_EQ(ncclCommFinalize(child), ncclInProgress);
        EXPECT_EQ(settled(child), ncclSuccess);
        OK(ncclCommDestroy(child));
        OK(ncclCommDestroy(comm));
    });
}

TEST(Lifetime, A_thousand_communicators_leave_no_file_thread_or_memory_behind) {
    run_ranks(2, [](Rank& self) {
        const auto cycle = [&](int times) {
            for (int i = 0; i < times; ++i) {
                const ncclUniqueId id = [&] {
                    static ncclUniqueId once = self.unique_id();
                    return once;
                }();
                ncclComm_t comm = nullptr;
                ASSERT_EQ(ncclCommInitRank(&comm, self.ranks, id, self.rank), ncclSuccess);
                ASSERT_EQ(sum_over(comm, 1, self.stream), 2);
                ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
            }
            sleep_ms(200);
        };
        cycle(10);
        const std::size_t files = open_files();
        const std::size_t threads = status_number("Threads");
        const std::size_t virtual_size = status_number("VmSize");
        const std::size_t resident = status_number("VmRSS");
        cycle(990);
        EXPECT_LE(open_files(), files);
        EXPECT_LE(status_number("Threads"), threads);
        EXPECT_LE(status_number("VmSize"), virtual_size + 4096);  // KiB
        EXPECT_LE(status_number("VmRSS"), resident + 4096);
    });
}

TEST(Lifetime, Destroying_waits_for_what_was_launched) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        const Memory buffer(std::vector<int>{self.rank + 1});
        static std::atomic<bool> go{false};
        CU_OK(cuLaunchHostFunc(
            self.stream,
            [](void*) {
                while (!go)
                    sleep_ms(1);
            },
            nullptr));
        OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
        std::thread later([] {
            sleep_ms(100);
            go = true;
        });
        OK(ncclCommDestroy(comm));
        EXPECT_TRUE(go);
        EXPECT_EQ(buffer.read<int>()[0], 3);
        later.join();
    });
}

TEST(Lifetime, A_process_may_end_with_communicators_alive_and_operations_that_hang) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        static Memory& buffer = *new Memory(64);
        if (self.rank == 0) {
            OK(ncclRecv(buffer.get(), 1, ncclInt, 1, comm, self.stream));
        }
        self.barrier();
    });
}

TEST(Lifetime, A_forked_child_may_end_while_the_parent_goes_on) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        const pid_t child = fork();
        if (child == 0)
            exit(0);
        EXPECT_EQ(sum_over(comm, 1, self.stream), 2);
        OK(ncclCommDestroy(comm));
        EXPECT_EQ(sum_over(self.communicator(), 1, self.stream), 2);
    });
}

TEST(DeviceMemory, Allocated_by_nccl_is_device_memory_and_can_be_registered) {
    run_ranks(1, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        void* memory = nullptr;
        void* handle = nullptr;
        OK(ncclMemAlloc(&memory, 1 << 20));
        CUmemorytype type{};
        CU_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(memory)));
        EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
        OK(ncclCommRegister(comm, memory, 1 << 20, &handle));
        OK(ncclCommDeregister(comm, handle));
        EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidUsage);
        OK(ncclMemFree(memory));
        EXPECT_NE(ncclMemFree(memory), ncclSuccess);
        OK(ncclCommDestroy(comm));
    });
}

TEST(DeviceMemory, Gets_no_window_and_is_used_without_one) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        void* memory = nullptr;
        OK(ncclMemAlloc(&memory, 1 << 20));
        ncclWindow_t window = reinterpret_cast<ncclWindow_t>(1);
        OK(ncclCommWindowRegister(comm, memory, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC));
        EXPECT_EQ(window, nullptr);
        OK(ncclCommWindowDeregister(comm, window));
        EXPECT_EQ(ncclCommWindowDeregister(comm, reinterpret_cast<ncclWindow_t>(1)), ncclInvalidArgument);
        EXPECT_EQ(ncclCommWindowRegister(comm, memory, 1 << 20, nullptr, NCCL_WIN_DEFAULT), ncclInvalidArgument);
        EXPECT_EQ(sum_over(comm, 1, self.stream), 2);
        OK(ncclMemFree(memory));
        OK(ncclCommDestroy(comm));
    });
}

}  // namespace
}  // namespace vgpu::test
