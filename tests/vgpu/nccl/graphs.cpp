// Operations that are captured: they run at each launch of the graph, on all ranks (NCCL guide, "Using NCCL with CUDA
// Graphs"), beside operations that are not.
#include <thread>

#include "ranks.hpp"

namespace vgpu::test {
namespace {

class Graphs : public testing::TestWithParam<int> {};

CUgraphExec end_of_capture(CUstream stream) {
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    return executable;
}

TEST_P(Graphs, A_captured_collective_and_messages_move_what_is_there_at_each_launch) {
    run_ranks(GetParam(), [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        constexpr std::size_t kCount = 5000;
        const int next = (self.rank + 1) % self.ranks;
        const int before = (self.rank + self.ranks - 1) % self.ranks;
        const int sum = self.ranks * (self.ranks - 1) / 2;
        const Memory own(kCount * sizeof(int)), total(kCount * sizeof(int)), neighbours(kCount * sizeof(int));
        const auto word = [](const Memory& memory) { return reinterpret_cast<CUdeviceptr>(memory.get()); };
        CU_OK(cuMemsetD32(word(total), 7, kCount));
        CU_OK(cuCtxSynchronize());
        CU_OK(cuStreamBeginCapture(self.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(ncclAllReduce(own.get(), total.get(), kCount, ncclInt, ncclSum, comm, self.stream));
        OK(ncclGroupStart());
        OK(ncclSend(total.get(), kCount / 2, ncclInt, next, comm, self.stream));
        OK(ncclSend(own.get(), kCount / 2, ncclInt, next, comm, self.stream));
        OK(ncclRecv(neighbours.get(), kCount / 2, ncclInt, before, comm, self.stream));
        OK(ncclRecv(neighbours.at(kCount / 2 * sizeof(int)), kCount / 2, ncclInt, before, comm, self.stream));
        OK(ncclGroupEnd());
        const CUgraphExec executable = end_of_capture(self.stream);
        ASSERT_EQ(total.read<int>()[0], 7);
        for (int round = 1; round <= 4; ++round) {
            CU_OK(cuMemsetD32Async(word(own), static_cast<unsigned>(round * 100 + self.rank), kCount, self.stream));
            CU_OK(cuGraphLaunch(executable, self.stream));
            if (round == 2)  // one that is not captured comes between
                OK(ncclAllReduce(total.get(), total.get(), kCount, ncclInt, ncclMax, comm, self.stream));
            CU_OK(cuStreamSynchronize(self.stream));
            const int expected = round * 100 * self.ranks + sum;
            ASSERT_EQ(total.read<int>(), std::vector<int>(kCount, expected)) << round;
            std::vector<int> both(kCount / 2, expected);
            both.resize(kCount, round * 100 + before);
            ASSERT_EQ(neighbours.read<int>(), both) << round;
        }
        CU_OK(cuGraphExecDestroy(executable));
        OK(ncclCommDestroy(comm));
    });
}

TEST_P(Graphs, A_group_on_two_streams_of_a_capture_is_a_part_of_it) {
    run_ranks(GetParam(), [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        constexpr std::size_t kCount = 100;
        const Memory first(std::vector<int>(kCount, 1)), second(std::vector<int>(kCount, 2));
        CUstream side = nullptr;
        CUevent event = nullptr;
        CU_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
        CU_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CU_OK(cuStreamBeginCapture(self.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CU_OK(cuEventRecord(event, self.stream));
        CU_OK(cuStreamWaitEvent(side, event, 0));
        OK(ncclGroupStart());
        OK(ncclAllReduce(first.get(), first.get(), kCount, ncclInt, ncclSum, comm, self.stream));
        OK(ncclAllReduce(second.get(), second.get(), kCount, ncclInt, ncclSum, comm, side));
        OK(ncclGroupEnd());
        CU_OK(cuEventRecord(event, side));
        CU_OK(cuStreamWaitEvent(self.stream, event, 0));
        const CUgraphExec executable = end_of_capture(self.stream);
        int factor = 1;
        for (int round = 0; round < 3; ++round) {
            CU_OK(cuGraphLaunch(executable, self.stream));
            CU_OK(cuStreamSynchronize(self.stream));
            factor *= self.ranks;
            ASSERT_EQ(first.read<int>(), std::vector<int>(kCount, factor));
            ASSERT_EQ(second.read<int>(), std::vector<int>(kCount, 2 * factor));
        }
        CU_OK(cuGraphExecDestroy(executable));
        OK(ncclCommDestroy(comm));
    });
}

TEST_P(Graphs, A_group_is_captured_into_one_graph_or_not_at_all) {
    run_ranks(GetParam(), [](Rank& self) {
        ncclComm_t comm = self.communicator();
        self.connect(comm);
        const Memory data(std::vector<int>(10, 1));
        CUstream side = nullptr;
        CU_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
        CU_OK(cuStreamBeginCapture(self.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(ncclGroupStart());
        ncclAllReduce(data.get(), data.get(), 10, ncclInt, ncclSum, comm, self.stream);
        ncclAllReduce(data.get(), data.get(), 10, ncclInt, ncclSum, comm, side);
        EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
        CU_OK(cuGraphExecDestroy(end_of_capture(self.stream)));
        OK(ncclAllReduce(data.get(), data.get(), 10, ncclInt, ncclSum, comm, self.stream));
        CU_OK(cuStreamSynchronize(self.stream));
        ASSERT_EQ(data.read<int>(), std::vector<int>(10, self.ranks));
        OK(ncclCommDestroy(comm));
    });
}

// NCCL makes potentially unsafe calls of CUDA when it sets a communicator up, before 2.28 on a thread of its own.
TEST(Setup, Beside_a_capture_of_mode_global_needs_a_relaxed_thread_and_2_28) {
    for (const char* version : {"2.27.3", "2.28.9"})
        for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
            Options options;
            options.environment["VGPU_NCCL_VERSION"] = version;
            run_ranks(
                1,
                [mode](Rank& self) {
                    int code = 0;
                    ncclGetVersion(&code);
                    const bool works = mode == CU_STREAM_CAPTURE_MODE_RELAXED && code >= NCCL_VERSION(2, 28, 0);
                    CUcontext context = nullptr;
                    CUgraph graph = nullptr;
                    CU_OK(cuCtxGetCurrent(&context));
                    CU_OK(cuStreamBeginCapture(self.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
                    std::thread([&] {
                        CUstreamCaptureMode own = mode;
                        CU_OK(cuThreadExchangeStreamCaptureMode(&own));
                        CU_OK(cuCtxSetCurrent(context));
                        ncclUniqueId id;
                        ncclComm_t comm = nullptr;
                        OK(ncclGetUniqueId(&id));
                        EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), works ? ncclSuccess : ncclUnhandledCudaError);
                    }).join();
                    EXPECT_EQ(cuStreamEndCapture(self.stream, &graph),
                              works ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                },
                options);
        }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Graphs, testing::Values(2, 3));

}  // namespace
}  // namespace vgpu::test
