// Sends, receives and groups: the data that they move, which waits for which, and in which order.
#include <numeric>

#include "ranks.hpp"

namespace vgpu::test {
namespace {

std::vector<int> numbers(std::size_t count, int first) {
    std::vector<int> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
}

class Transfers : public testing::TestWithParam<int> {};

TEST_P(Transfers, A_ring_of_grouped_sends_and_receives_passes_every_size) {
    run_ranks(GetParam(), [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        const int next = (self.rank + 1) % self.ranks;
        const int before = (self.rank + self.ranks - 1) % self.ranks;
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{300000}}) {
            const Memory out(numbers(count, self.rank * 10));
            const Memory in(count * sizeof(int));
            OK(ncclGroupStart());
            OK(ncclSend(out.get(), count, ncclInt, next, comm, self.stream));
            OK(ncclRecv(in.get(), count, ncclInt, before, comm, self.stream));
            OK(ncclGroupEnd());
            CU_OK(cuStreamSynchronize(self.stream));
            ASSERT_EQ(in.read<int>(), numbers(count, before * 10));
        }
        OK(ncclCommDestroy(comm));
    });
}

TEST_P(Transfers, A_group_exchanges_with_everyone_at_once_and_keeps_order_to_each_peer) {
    run_ranks(GetParam(), [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        constexpr std::size_t kCount = 20000;
        constexpr int kEach = 3;  // messages to each rank, oneself included
        const auto n = static_cast<std::size_t>(self.ranks);
        const auto tag = [&](int from, int to, int message) { return (from * 100 + to * 10 + message) * 1000; };
        std::vector<int> out;
        for (int peer = 0; peer < self.ranks; ++peer)
            for (int message = 0; message < kEach; ++message) {
                const auto part = numbers(kCount, tag(self.rank, peer, message));
                out.insert(out.end(), part.begin(), part.end());
            }
        const Memory send(out);
        const Memory recv(out.size() * sizeof(int));
        OK(ncclGroupStart());
        for (std::size_t i = 0; i < n * kEach; ++i) {
            OK(ncclSend(send.at(i * kCount * sizeof(int)), kCount, ncclInt, static_cast<int>(i) / kEach, comm,
                        self.stream));
            OK(ncclRecv(recv.at(i * kCount * sizeof(int)), kCount, ncclInt, static_cast<int>(i) / kEach, comm,
                        self.stream));
        }
        OK(ncclGroupEnd());
        CU_OK(cuStreamSynchronize(self.stream));
        const auto got = recv.read<int>();
        for (std::size_t i = 0; i < n * kEach; ++i)
            ASSERT_EQ(got[i * kCount + 7], tag(static_cast<int>(i) / kEach, self.rank, static_cast<int>(i) % kEach) + 7)
                << i;
        OK(ncclCommDestroy(comm));
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Transfers, testing::Values(1, 2, 3, 5));

TEST(PointToPoint, A_send_to_oneself_without_a_receive_is_refused) {
    run_ranks(1, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        const Memory buffer(64);
        EXPECT_EQ(ncclSend(buffer.get(), 16, ncclInt, 0, comm, self.stream), ncclInvalidUsage);
        OK(ncclCommDestroy(comm));
    });
}

TEST(PointToPoint, A_send_waits_for_its_receive_whatever_its_size) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        const Memory buffer(64);
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}}) {
            const int slot = 1 + static_cast<int>(count);
            if (self.rank == 0) {
                OK(ncclSend(buffer.get(), count, ncclInt, 1, comm, self.stream));
                EXPECT_FALSE(drained(self.stream, 200));
                self.post(slot, 1);
            } else {
                self.await(slot);
                OK(ncclRecv(buffer.get(), count, ncclInt, 0, comm, self.stream));
            }
            EXPECT_TRUE(drained(self.stream, 10000));
        }
        OK(ncclCommDestroy(comm));
    });
}

TEST(PointToPoint, A_buffer_lets_small_sends_leave_before_their_receives_and_holds_back_the_rest) {
    Options options;
    options.environment = {{"VGPU_NCCL_BUFFER", "4096"}};
    run_ranks(
        2,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            self.connect(comm);
            const Memory out(numbers(1024, self.rank));
            const Memory in(1024 * sizeof(int));
            // Mutual, ungrouped: completes only because both sends are buffered.
            OK(ncclSend(out.get(), 1000, ncclInt, 1 - self.rank, comm, self.stream));
            OK(ncclRecv(in.get(), 1000, ncclInt, 1 - self.rank, comm, self.stream));
            ASSERT_TRUE(drained(self.stream, 10000));
            EXPECT_EQ(in.read<int>()[999], 999 + 1 - self.rank);
            self.barrier();
            if (self.rank == 0) {
                OK(ncclSend(out.get(), 900, ncclInt, 1, comm, self.stream));
                EXPECT_TRUE(drained(self.stream, 10000));
                OK(ncclSend(out.at(4), 900, ncclInt, 1, comm, self.stream));
                EXPECT_FALSE(drained(self.stream, 200)) << "the buffer has room for one of the two";
                self.post(1, 1);
            } else {
                self.await(1);
                for (int first : {0, 1}) {
                    OK(ncclRecv(in.get(), 900, ncclInt, 0, comm, self.stream));
                    CU_OK(cuStreamSynchronize(self.stream));
                    EXPECT_EQ(in.read<int>()[0], first);
                }
            }
            EXPECT_TRUE(drained(self.stream, 10000));
            OK(ncclCommDestroy(comm));
        },
        options);
}

TEST(Order, Operations_of_one_communicator_run_in_launch_order_whatever_their_streams) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        CUstream other = nullptr;
        CU_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        const Memory buffer(numbers(256, self.rank));
        // The first stream is held up; what was launched later on the other one must not overtake.
        static std::atomic<bool> go{false};
        CU_OK(cuLaunchHostFunc(
            self.stream,
            [](void*) {
                while (!go)
                    sleep_ms(1);
            },
            nullptr));
        OK(ncclAllReduce(buffer.get(), buffer.get(), 256, ncclInt, ncclSum, comm, self.stream));
        OK(ncclAllReduce(buffer.get(), buffer.get(), 256, ncclInt, ncclProd, comm, other));
        EXPECT_FALSE(drained(other, 200));
        go = true;
        CU_OK(cuStreamSynchronize(other));
        EXPECT_EQ(buffer.read<int>()[3], (3 + 4) * (3 + 4));
        OK(ncclCommDestroy(comm));
    });
}

TEST(Order, Two_communicators_run_side_by_side) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t first = self.communicator();
        ncclComm_t second = self.communicator();
        self.connect(first);
        self.connect(second);
        CUstream other = nullptr;
        CU_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        const Memory buffer(64);
        if (self.rank == 0) {
            OK(ncclSend(buffer.get(), 1, ncclInt, 1, first, self.stream));
        }
        OK(ncclAllReduce(buffer.at(4), buffer.at(4), 1, ncclInt, ncclSum, second, other));
        EXPECT_TRUE(drained(other, 10000));
        if (self.rank == 1) {
            OK(ncclRecv(buffer.get(), 1, ncclInt, 0, first, self.stream));
        }
        EXPECT_TRUE(drained(self.stream, 10000));
        OK(ncclCommDestroy(first));
        OK(ncclCommDestroy(second));
    });
}

TEST(Groups, Several_collectives_and_transfers_on_several_streams_are_one_launch) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        CUstream other = nullptr;
        CU_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        const Memory a(numbers(100, self.rank));
        const Memory b(numbers(100, self.rank * 7));
        const Memory c(100 * sizeof(int));
        OK(ncclGroupStart());
        OK(ncclAllReduce(a.get(), a.get(), 100, ncclInt, ncclSum, comm, self.stream));
        OK(ncclSend(b.get(), 100, ncclInt, 1 - self.rank, comm, other));
        OK(ncclBroadcast(b.get(), c.at(0), 1, ncclInt, 0, comm, other));
        OK(ncclRecv(c.get(), 100, ncclInt, 1 - self.rank, comm, self.stream));
        OK(ncclGroupEnd());
        // Both streams wait for the whole group.
        CU_OK(cuStreamSynchronize(other));
        EXPECT_EQ(a.read<int>()[5], 11);
        EXPECT_EQ(c.read<int>()[5], 5 + 7 * (1 - self.rank));
        OK(ncclCommDestroy(comm));
    });
}

TEST(Groups, An_error_inside_is_the_groups_error_and_nothing_of_it_is_launched) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        const Memory buffer(64);
        OK(ncclGroupStart());
        OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
        EXPECT_EQ(ncclBroadcast(buffer.get(), buffer.get(), 1, ncclInt, 9, comm, self.stream), ncclInvalidArgument);
        EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
        EXPECT_TRUE(drained(self.stream, 1000));
        EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
        OK(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream));
        CU_OK(cuStreamSynchronize(self.stream));
        OK(ncclCommDestroy(comm));
    });
}

TEST(Operators, PreMulSum_scales_each_ranks_values_with_a_scalar_of_host_or_device) {
    run_ranks(3, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        float factor = static_cast<float>(self.rank + 2);
        const Memory device_factor(std::vector<float>{factor});
        for (const bool host : {true, false}) {
            ncclRedOp_t op;
            OK(ncclRedOpCreatePreMulSum(&op, host ? static_cast<void*>(&factor) : device_factor.get(), ncclFloat,
                                        host ? ncclScalarHostImmediate : ncclScalarDevice, comm));
            const Memory buffer(std::vector<float>(10, 3.0f));
            OK(ncclAllReduce(buffer.get(), buffer.get(), 10, ncclFloat, op, comm, self.stream));
            OK(ncclRedOpDestroy(op, comm));  // allowed as soon as the call has returned
            CU_OK(cuStreamSynchronize(self.stream));
            EXPECT_EQ(buffer.read<float>(), std::vector<float>(10, 3.0f * (2 + 3 + 4)));
            EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 10, ncclFloat, op, comm, self.stream),
                      ncclInvalidArgument);
        }
        EXPECT_EQ(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
        OK(ncclCommDestroy(comm));
    });
}

TEST(Buffers, Pinned_and_managed_memory_are_as_good_as_device_memory) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        int* pinned = nullptr;
        CUdeviceptr managed = 0;
        CU_OK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 64, 0));
        CU_OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
        pinned[0] = self.rank + 5;
        OK(ncclAllReduce(pinned, reinterpret_cast<void*>(managed), 1, ncclInt, ncclSum, comm, self.stream));
        CU_OK(cuStreamSynchronize(self.stream));
        EXPECT_EQ(*reinterpret_cast<int*>(managed), 11);
        OK(ncclCommDestroy(comm));
    });
}

TEST(Buffers, A_plain_host_pointer_fails_the_operation_and_says_so) {
    const auto ends = run_ranks(1, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        std::vector<int> host(16);
        OK(ncclAllReduce(host.data(), host.data(), 16, ncclInt, ncclSum, comm, self.stream));
        EXPECT_EQ(error_of(comm), ncclUnhandledCudaError);
        EXPECT_TRUE(drained(self.stream, 5000));
        OK(ncclCommAbort(comm));
    });
    EXPECT_NE(ends[0].output.find("illegal address"), std::string::npos) << ends[0].output;
}

TEST(Buffers, A_reduction_at_an_address_that_is_no_multiple_of_its_elements_fails_and_an_exchange_does_not) {
    const auto ends = run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        CUdeviceptr data = 0;
        CU_OK(cuMemAlloc(&data, 256));
        void* odd = reinterpret_cast<void*>(data + 1);
        OK(ncclBroadcast(odd, odd, 100, ncclInt8, 0, comm, self.stream));
        CU_OK(cuStreamSynchronize(self.stream));
        EXPECT_EQ(error_of(comm), ncclSuccess);
        OK(ncclAllReduce(odd, odd, 16, ncclFloat, ncclSum, comm, self.stream));
        EXPECT_TRUE(drained(self.stream, 5000));
        EXPECT_EQ(error_of(comm), ncclUnhandledCudaError);
        OK(ncclCommAbort(comm));
    });
    EXPECT_NE(ends[0].output.find("misaligned address"), std::string::npos) << ends[0].output;
}

TEST(Buffers, With_check_pointers_a_host_pointer_is_an_invalid_argument) {
    Options options;
    options.environment = {{"NCCL_CHECK_POINTERS", "1"}};
    run_ranks(
        1,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            self.connect(comm);
            std::vector<int> host(16);
            EXPECT_EQ(ncclAllReduce(host.data(), host.data(), 16, ncclInt, ncclSum, comm, self.stream),
                      ncclInvalidArgument);
            OK(ncclCommDestroy(comm));
        },
        options);
}

}  // namespace
}  // namespace vgpu::test
