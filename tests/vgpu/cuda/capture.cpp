// Stream capture: what becomes a graph, when it runs, and what a capture forbids. The expected answers are those of
// cuda.h at cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode, and of the CUDA C++ Programming Guide's chapter
// on graphs.
#include <functional>

#include "fixture.hpp"

using vgpu::test::Gate;

namespace {

// The calling thread's interaction mode, for the life of an object.
class Mode {
  public:
    explicit Mode(CUstreamCaptureMode mode) : mode_(mode) { cuThreadExchangeStreamCaptureMode(&mode_); }
    ~Mode() { cuThreadExchangeStreamCaptureMode(&mode_); }
    Mode(const Mode&) = delete;
    Mode& operator=(const Mode&) = delete;

  private:
    CUstreamCaptureMode mode_;
};

void CUDA_CB count_up(void* counter) {
    ++*static_cast<std::atomic<int>*>(counter);
}

}  // namespace

class StreamCapture : public vgpu::test::WithContext {
  protected:
    void SetUp() override {
        WithContext::SetUp();
        work = stream();
        memory = allocate(64 * sizeof(int));
        ASSERT_EQ(cuMemsetD32(memory, 0, 64), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    }

    void begin(CUstream on, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
        ASSERT_EQ(cuStreamBeginCapture(on, mode), CUDA_SUCCESS);
    }
    CUgraph end(CUstream on) {
        CUgraph graph = nullptr;
        EXPECT_EQ(cuStreamEndCapture(on, &graph), CUDA_SUCCESS);
        EXPECT_NE(graph, nullptr);
        return graph;
    }
    // Ends a capture that has failed.
    void end(CUstream on, CUresult expected) {
        CUgraph graph = reinterpret_cast<CUgraph>(this);
        EXPECT_EQ(cuStreamEndCapture(on, &graph), expected);
        EXPECT_EQ(graph, nullptr);
        EXPECT_EQ(status(on), CU_STREAM_CAPTURE_STATUS_NONE);
    }
    static CUstreamCaptureStatus status(CUstream on) {
        CUstreamCaptureStatus status{};
        EXPECT_EQ(cuStreamIsCapturing(on, &status), CUDA_SUCCESS);
        return status;
    }
    static CUgraphExec instantiate(CUgraph graph) {
        CUgraphExec executable = nullptr;
        EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
        EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
        return executable;
    }
    static std::size_t nodes(CUgraph graph) {
        std::size_t count = 0;
        EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
        return count;
    }
    int first() { return read<int>(memory, 1)[0]; }
    // What a call of another thread returns, and whether the capture of `work`, of this thread, survives it.
    struct Outcome {
        CUresult result;
        bool valid;
    };
    Outcome elsewhere(CUstreamCaptureMode captures, CUstreamCaptureMode mode, const std::function<CUresult()>& call) {
        begin(work, captures);
        Outcome outcome{};
        std::thread([&] {
            cuCtxSetCurrent(context);
            const Mode own(mode);
            outcome.result = call();
        }).join();
        outcome.valid = status(work) == CU_STREAM_CAPTURE_STATUS_ACTIVE;
        CUgraph graph = nullptr;
        EXPECT_EQ(cuStreamEndCapture(work, &graph),
                  outcome.valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        if (graph != nullptr)
            cuGraphDestroy(graph);
        return outcome;
    }
    CUresult allocate_now() {
        CUdeviceptr pointer = 0;
        const CUresult result = cuMemAlloc(&pointer, 64);
        if (result == CUDA_SUCCESS)
            cuMemFree(pointer);
        return result;
    }

    CUstream work = nullptr;
    CUdeviceptr memory = 0;
};

TEST_F(StreamCapture, Captured_work_runs_at_each_launch_of_the_graph_and_not_before) {
    std::atomic<int> calls{0};
    int pageable[2] = {11, 0};
    EXPECT_EQ(status(work), CU_STREAM_CAPTURE_STATUS_NONE);
    begin(work);
    EXPECT_EQ(status(work), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ASSERT_EQ(cuMemsetD32Async(memory + 4, 5, 1, work), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyHtoDAsync(memory, &pageable[0], sizeof(int), work), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync(&pageable[1], memory, sizeof(int), work), CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchHostFunc(work, count_up, &calls), CUDA_SUCCESS);
    const CUgraph graph = end(work);
    EXPECT_EQ(nodes(graph), 4u);
    EXPECT_EQ(status(work), CU_STREAM_CAPTURE_STATUS_NONE);
    const CUgraphExec executable = instantiate(graph);
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(read<int>(memory, 2), (std::vector<int>{0, 0}));
    for (int i = 1; i <= 3; ++i) {
        pageable[0] = 100 + i;
        ASSERT_EQ(cuGraphLaunch(executable, work), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
        EXPECT_EQ(calls, i);
        EXPECT_EQ(pageable[1], 100 + i);
        EXPECT_EQ(read<int>(memory, 2), (std::vector<int>{100 + i, 5}));
    }
    EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
}

TEST_F(StreamCapture, A_launch_comes_after_earlier_work_of_its_stream_and_earlier_launches) {
    std::atomic<int> calls{0};
    begin(work);
    ASSERT_EQ(cuLaunchHostFunc(work, count_up, &calls), CUDA_SUCCESS);
    const CUgraphExec executable = instantiate(end(work));
    const CUstream other = stream();
    Gate gate;
    gate.close_on(work);
    ASSERT_EQ(cuGraphLaunch(executable, work), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphLaunch(executable, other), CUDA_SUCCESS);
    gate.await();
    EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(calls, 0);
    gate.open = true;
    ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
}

TEST_F(StreamCapture, An_event_forks_a_capture_into_another_stream_and_joins_it_again) {
    const CUstream side = stream();
    const CUevent fork = event();
    const CUevent join = event();
    begin(work);
    ASSERT_EQ(cuMemsetD32Async(memory, 1, 1, work), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(fork, work), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
    EXPECT_EQ(status(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ASSERT_EQ(cuMemcpyDtoDAsync(memory + 4, memory, 4, side), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoDAsync(memory + 8, memory, 4, work), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(join, side), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(work, join, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoDAsync(memory + 12, memory + 4, 8, work), CUDA_SUCCESS);
    const CUgraph graph = end(work);
    EXPECT_EQ(nodes(graph), 4u);
    std::size_t roots = 0;
    EXPECT_EQ(cuGraphGetRootNodes(graph, nullptr, &roots), CUDA_SUCCESS);
    EXPECT_EQ(roots, 1u);
    EXPECT_EQ(status(side), CU_STREAM_CAPTURE_STATUS_NONE);
    const CUgraphExec executable = instantiate(graph);
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(cuMemsetD32(memory, 9, 8), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
        ASSERT_EQ(cuGraphLaunch(executable, work), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
        EXPECT_EQ(read<int>(memory, 6), (std::vector<int>{1, 1, 1, 1, 1, 9}));
    }
    EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
}

TEST_F(StreamCapture, A_fork_that_is_not_joined_is_an_error_at_the_end) {
    const CUstream side = stream();
    const CUevent fork = event();
    begin(work);
    ASSERT_EQ(cuEventRecord(fork, work), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32Async(memory, 1, 1, side), CUDA_SUCCESS);
    end(work, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(status(side), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(StreamCapture, Only_its_own_stream_and_thread_end_a_capture) {
    const CUstream side = stream();
    const CUevent fork = event();
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(work, &graph), CUDA_ERROR_ILLEGAL_STATE);
    begin(work);
    EXPECT_EQ(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_ERROR_ILLEGAL_STATE);
    std::thread([&] {
        cuCtxSetCurrent(context);
        EXPECT_EQ(cuStreamEndCapture(work, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }).join();
    EXPECT_EQ(status(work), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(cuStreamEndCapture(work, &graph), CUDA_ERROR_ILLEGAL_STATE);

    begin(work);
    ASSERT_EQ(cuEventRecord(fork, work), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    end(work, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(work, CU_STREAM_CAPTURE_MODE_RELAXED);
    std::thread([&] {
        cuCtxSetCurrent(context);
        EXPECT_EQ(cuStreamEndCapture(work, &graph), CUDA_SUCCESS);
    }).join();
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(StreamCapture, A_capture_tells_its_id_and_what_its_next_node_comes_after) {
    CUstreamCaptureStatus state{};
    cuuint64_t id = 0;
    cuuint64_t again = 0;
    CUgraph during = nullptr;
    const CUgraphNode* after = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    std::size_t count = 9;
    begin(work);
    ASSERT_EQ(cuStreamGetCaptureInfo_v3(work, &state, &id, &during, &after, &edges, &count), CUDA_SUCCESS);
    EXPECT_EQ(state, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(count, 0u);
    ASSERT_EQ(cuMemsetD32Async(memory, 1, 1, work), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamGetCaptureInfo_v3(work, &state, &again, nullptr, &after, &edges, &count), CUDA_SUCCESS);
    EXPECT_EQ(again, id);
    ASSERT_EQ(count, 1u);
    CUgraphNodeType type{};
    EXPECT_EQ(cuGraphNodeGetType(after[0], &type), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMSET);
    const CUgraph graph = end(work);
    EXPECT_EQ(graph, during);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    begin(work);
    ASSERT_EQ(cuStreamGetCaptureInfo_v3(work, &state, &again, nullptr, nullptr, nullptr, nullptr), CUDA_SUCCESS);
    EXPECT_NE(again, id);
    EXPECT_EQ(cuGraphDestroy(end(work)), CUDA_SUCCESS);
}

TEST_F(StreamCapture, What_would_connect_a_capture_with_other_work_is_refused) {
    const CUstream other = stream();
    const CUevent uncaptured = event();
    const CUevent captured = event();
    ASSERT_EQ(cuEventRecord(uncaptured, other), CUDA_SUCCESS);
    begin(work);
    EXPECT_EQ(cuStreamWaitEvent(work, uncaptured, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    EXPECT_EQ(cuMemsetD32Async(memory, 1, 1, work), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end(work, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(work);
    begin(other);
    ASSERT_EQ(cuEventRecord(captured, other), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(work, captured, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    end(work, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end(other, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(StreamCapture, Captured_work_cannot_be_waited_for) {
    const Mode relaxed(CU_STREAM_CAPTURE_MODE_RELAXED);  // makes no difference to these
    const CUevent captured = event();
    const std::function<CUresult()> calls[] = {
        [&] { return cuStreamQuery(work); },
        [&] { return cuStreamSynchronize(work); },
        [] { return cuCtxSynchronize(); },
    };
    for (const auto& call : calls) {
        begin(work, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT_EQ(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT_EQ(status(work), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        end(work, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    begin(work, CU_STREAM_CAPTURE_MODE_RELAXED);
    ASSERT_EQ(cuEventRecord(captured, work), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(captured), CUDA_ERROR_CAPTURED_EVENT);
    end(work, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ASSERT_EQ(cuEventRecord(captured, work), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(captured), CUDA_SUCCESS);
}

TEST_F(StreamCapture, The_legacy_stream_cannot_be_used_beside_the_capture_of_a_blocking_one) {
    EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const CUstream blocking = stream(CU_STREAM_DEFAULT);
    CUstreamCaptureStatus state{};
    int value = 0;
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(cuStreamIsCapturing(nullptr, &state), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);  // that question does no harm
    EXPECT_EQ(cuMemsetD32Async(memory, 1, 1, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(cuMemcpyDtoH(&value, memory, sizeof value), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(work, CU_STREAM_CAPTURE_MODE_RELAXED);  // which the legacy stream does not wait for
    EXPECT_EQ(cuMemsetD32Async(memory, 1, 1, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamIsCapturing(nullptr, &state), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(end(work)), CUDA_SUCCESS);
}

TEST_F(StreamCapture, The_own_threads_potentially_unsafe_calls_are_forbidden_unless_relaxed) {
    const CUstream other = stream();
    const CUevent recorded = event();
    ASSERT_EQ(cuEventRecord(recorded, other), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
    const std::function<CUresult()> calls[] = {
        [&] { return allocate_now(); },
        [&] { return cuEventQuery(recorded); },
        [&] { return cuStreamSynchronize(other); },
    };
    for (const auto& call : calls) {
        for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
            begin(work, mode);
            EXPECT_EQ(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            end(work, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            begin(work, mode);
            {
                const Mode relaxed(CU_STREAM_CAPTURE_MODE_RELAXED);
                EXPECT_EQ(call(), CUDA_SUCCESS);
            }
            EXPECT_EQ(cuGraphDestroy(end(work)), CUDA_SUCCESS);
        }
        begin(work, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT_EQ(call(), CUDA_SUCCESS);
        EXPECT_EQ(cuGraphDestroy(end(work)), CUDA_SUCCESS);
    }
}

TEST_F(StreamCapture, Other_threads_potentially_unsafe_calls_are_forbidden_where_both_modes_are_global) {
    constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                              CU_STREAM_CAPTURE_MODE_RELAXED};
    for (const auto captures : kModes)
        for (const auto mode : kModes) {
            const bool forbidden = captures == CU_STREAM_CAPTURE_MODE_GLOBAL && mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
            const Outcome outcome = elsewhere(captures, mode, [&] { return allocate_now(); });
            EXPECT_EQ(outcome.result, forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
            EXPECT_EQ(outcome.valid, !forbidden);
        }
}

TEST_F(StreamCapture, A_threads_mode_is_its_own_and_exchanged) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    std::thread([] {
        CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
        EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&own), CUDA_SUCCESS);
        EXPECT_EQ(own, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }).join();
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    mode = static_cast<CUstreamCaptureMode>(7);
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, static_cast<CUstreamCaptureMode>(7));
}

TEST_F(StreamCapture, A_capture_may_go_on_in_a_graph_of_the_programs) {
    CUgraph graph = nullptr;
    ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamBeginCaptureToGraph(work, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32Async(memory, 3, 1, work), CUDA_SUCCESS);
    EXPECT_EQ(end(work), graph);
    CUgraphNode node = nullptr;
    std::size_t count = 1;
    ASSERT_EQ(cuGraphGetNodes(graph, &node, &count), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamBeginCaptureToGraph(work, graph, &node, nullptr, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoDAsync(memory + 4, memory, 4, work), CUDA_SUCCESS);
    EXPECT_EQ(end(work), graph);
    const CUgraphExec executable = instantiate(graph);
    ASSERT_EQ(cuGraphLaunch(executable, work), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(memory, 2), (std::vector<int>{3, 3}));
    EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
}

TEST_F(StreamCapture, No_callback_becomes_a_node) {
    begin(work);
    EXPECT_EQ(cuStreamAddCallback(
                  work, [](CUstream, CUresult, void*) {}, nullptr, 0),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end(work, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
