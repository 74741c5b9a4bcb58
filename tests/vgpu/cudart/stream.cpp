// Streams, events, host functions, capture, and injected faults.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "../real.hpp"
#include "child.hpp"

using vgpu::test::run_child;

#if CUDART_VERSION < 13000  // CUDA 13's form has a name of its own there, if it is declared at all
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#endif

extern "C" {
#if CUDART_VERSION < 12030
using cudaGraphEdgeData = void;
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*, cudaGraph_t*,
                                        const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*);
#endif
cudaError_t cudaStreamGetDevice(cudaStream_t, int*);  // CUDA 12.8's headers and later ones declare it too
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t, cudaHostFn_t, void*);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
}

namespace {

struct Gate {
    std::atomic<bool> open{false};
    static void wait(void* gate) {
        while (!static_cast<Gate*>(gate)->open)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
};

struct Order {
    std::vector<int> seen;
};

}  // namespace

class Stream : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    }
    void TearDown() override {
        EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "left by the test";
    }
    cudaStream_t stream_ = nullptr;
};

TEST_F(Stream, runs_its_work_in_order_and_later_than_the_call) {
    Gate gate;
    Order order;
    ASSERT_EQ(cudaLaunchHostFunc(stream_, Gate::wait, &gate), cudaSuccess);
    ASSERT_EQ(cudaStreamAddCallback(
                  stream_,
                  [](cudaStream_t, cudaError_t status, void* to) {
                      static_cast<Order*>(to)->seen.push_back(status == cudaSuccess ? 1 : -1);
                  },
                  &order, 0),
              cudaSuccess);
    ASSERT_EQ(cudaLaunchHostFunc(
                  stream_, [](void* to) { static_cast<Order*>(to)->seen.push_back(2); }, &order),
              cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
    EXPECT_TRUE(order.seen.empty());
    gate.open = true;
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(order.seen, (std::vector<int>{1, 2}));
    EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(Stream, waits_for_an_event_of_another_stream) {
    Gate gate;
    cudaStream_t other = nullptr;
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaLaunchHostFunc(other, Gate::wait, &gate), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
    gate.open = true;
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(Stream, events_measure_time_unless_told_not_to) {
    cudaEvent_t start = nullptr;
    cudaEvent_t end = nullptr;
    cudaEvent_t timeless = nullptr;
    ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&timeless, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(start, stream_), cudaSuccess);
    ASSERT_EQ(cudaLaunchHostFunc(
                  stream_, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(timeless, stream_), cudaSuccess);
    ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
    float milliseconds = 0;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
    EXPECT_GE(milliseconds, 19.0F);
    ASSERT_EQ(cudaEventSynchronize(timeless), cudaSuccess);
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, timeless), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    for (cudaEvent_t each : {start, end, timeless})
        EXPECT_EQ(cudaEventDestroy(each), cudaSuccess);
}

TEST_F(Stream, knows_its_flags_priority_and_device) {
    unsigned flags = 0;
    int least = 0;
    int greatest = 0;
    int priority = 99;
    EXPECT_EQ(cudaStreamGetFlags(stream_, &flags), cudaSuccess);
    EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
    ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
    EXPECT_LE(greatest, least);
    cudaStream_t urgent = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&urgent, cudaStreamDefault, greatest), cudaSuccess);
    EXPECT_EQ(cudaStreamGetPriority(urgent, &priority), cudaSuccess);
    EXPECT_EQ(priority, greatest);
    unsigned long long one = 0;
    unsigned long long two = 0;
    EXPECT_EQ(cudaStreamGetId(stream_, &one), cudaSuccess);
    EXPECT_EQ(cudaStreamGetId(urgent, &two), cudaSuccess);
    EXPECT_NE(one, two);
    int device = -1;
    EXPECT_EQ(cudaStreamGetDevice(urgent, &device), cudaSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(cudaStreamDestroy(urgent), cudaSuccess);
}

TEST_F(Stream, null_is_the_threads_own_in_the_per_thread_forms) {
    Gate gate;
    ASSERT_EQ(cudaLaunchHostFunc_ptsz(nullptr, Gate::wait, &gate), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery_ptsz(nullptr), cudaErrorNotReady);
    std::thread([] { EXPECT_EQ(cudaStreamQuery_ptsz(nullptr), cudaSuccess); }).join();
    gate.open = true;
    EXPECT_EQ(cudaStreamSynchronize_ptsz(nullptr), cudaSuccess);
}

TEST_F(Stream, a_capture_becomes_a_graph_that_runs_at_each_launch) {
    int* memory = nullptr;
    int value = 0;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 2 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaMemset(memory, 0, 2 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    ASSERT_EQ(cudaMemsetAsync(memory, 1, sizeof(int), stream_), cudaSuccess);
    unsigned long long id = 0;
    const cudaGraphNode_t* nodes = nullptr;
    size_t count = 0;
    EXPECT_EQ(cudaStreamGetCaptureInfo(stream_, &status, &id, nullptr, &nodes, nullptr, &count), cudaSuccess);
    ASSERT_EQ(count, 1U);
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    EXPECT_EQ(cudaGraphNodeGetType(nodes[0], &type), cudaSuccess);
    EXPECT_EQ(type, cudaGraphNodeTypeMemset);
    ASSERT_EQ(cudaMemcpyAsync(memory + 1, memory, sizeof(int), cudaMemcpyDeviceToDevice, stream_), cudaSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
    EXPECT_EQ(count, 2U);
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(cudaMemcpy(&value, memory + 1, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
        EXPECT_EQ(value, 0);
        ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
        EXPECT_EQ(cudaMemcpy(&value, memory + 1, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
        EXPECT_EQ(value, 0x01010101);
        ASSERT_EQ(cudaMemset(memory, 0, 2 * sizeof(int)), cudaSuccess);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Stream, what_a_capture_forbids_invalidates_it) {
    cudaGraph_t graph = nullptr;
    void* memory = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorIllegalState);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    cudaStream_t blocking = nullptr;
    ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorStreamCaptureImplicit);
    EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
}

TEST(Fault, DISABLED_third_malloc) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
}

TEST(Fault, of_a_runtime_function_comes_at_the_call_that_was_asked_for) {
    VIRTUAL_ONLY("VGPU_FAULTS");
    const auto child =
        run_child("Fault.DISABLED_third_malloc", {{"VGPU_FAULTS", "cudaMalloc@3=cudaErrorMemoryAllocation"}});
    EXPECT_TRUE(child.passed()) << child.output;
}

TEST(Fault, DISABLED_hanging_copy) {
    void* memory = nullptr;
    int value = 7;
    cudaStream_t stream = nullptr;
    cudaStream_t other = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, sizeof value), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, stream), cudaSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    ASSERT_EQ(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, other), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
}

TEST(Fault, hang_stalls_the_stream_and_no_other_and_the_process_can_still_end) {
    VIRTUAL_ONLY("VGPU_FAULTS");
    const auto child = run_child("Fault.DISABLED_hanging_copy", {{"VGPU_FAULTS", "cudaMemcpyAsync@1=hang"}});
    EXPECT_TRUE(child.passed()) << child.output;
}

TEST(Fault, DISABLED_deadly_synchronize) {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cudaDeviceSynchronize();
    exit(0);
}

TEST(Fault, die_ends_the_process_by_a_kill) {
    VIRTUAL_ONLY("VGPU_FAULTS");
    const auto child = run_child("Fault.DISABLED_deadly_synchronize", {{"VGPU_FAULTS", "cudaDeviceSynchronize@2=die"}});
    EXPECT_TRUE(child.killed_by(SIGKILL)) << child.output;
}
