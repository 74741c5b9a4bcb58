// Enqueue calls on a stream that is captured into a CUDA graph: each launch of the graph communicates anew, with what
// is in the buffers then. What cannot be captured is an MPI error that says so, and the capture goes on. The expected
// data is arithmetic.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 3 --gpus 3 --relinked -x VGPU_JITTER=4
// launch: -n 2 --gpus 2 --relinked -x SWITCHYARD_NCCL=no -- host
// test-timeout: 90
// clang-format on
#include <cstdio>
#include <string>
#include <vector>

#include "queue.hpp"

namespace {

using stream_test::Queue;

constexpr int kCount = 3000;
int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

void expect_ok(int code, const std::string& what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    expect(code == MPI_SUCCESS, what + ": " + text);
}

void expect_error(int code, const std::vector<std::string>& words, const std::string& what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int found = MPI_SUCCESS, length = 0;
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    expect(found == MPI_ERR_OTHER, what + ": class " + std::to_string(found) + ": " + text);
    for (const std::string& word : words)
        expect(std::string(text).find(word) != std::string::npos, what + ": no \"" + word + "\" in " + text);
}

template <typename... Parameters>
int cuda(const char* function, Parameters... parameters) {
    return gpu::Driver::get().call<int(Parameters...)>(function)(parameters...);
}
template <typename... Parameters>
void checked(const char* function, Parameters... parameters) {
    gpu::Driver::check(function, cuda(function, parameters...));
}

class Ints {
  public:
    explicit Ints(int value = 0) : memory_(gpu::Kind::kDevice, kCount * sizeof(int)) { set(value); }
    void* get() const { return memory_.address(); }
    void set(int value) {
        checked("cuMemsetD32_v2", get(), static_cast<unsigned>(value), std::size_t{kCount});
        checked("cuCtxSynchronize");
    }
    void expect_all(int value, const std::string& what) const {
        std::vector<int> all(kCount);
        gpu::Driver::get().copy(all.data(), get(), kCount * sizeof(int));
        for (const int one : all)
            if (one != value)
                return expect(false, what + ": " + std::to_string(one) + " and not " + std::to_string(value));
    }

  private:
    gpu::Memory memory_;
};

constexpr int kGlobal = 0, kThreadLocal = 1;
void begin(const Queue& queue, int mode) {
    checked("cuStreamBeginCapture_v2", queue.stream(), mode);
}

// The graph of a capture that is valid to its end.
class Graph {
  public:
    explicit Graph(const Queue& queue, const std::string& what) : stream_(queue.stream()) {
        void* graph = nullptr;
        const int ended = cuda("cuStreamEndCapture", stream_, &graph);
        expect(ended == 0, what + ": the capture ends with CUDA error " + std::to_string(ended));
        gpu::Driver::check("cuStreamEndCapture", ended);
        checked("cuGraphInstantiateWithFlags", &executable_, graph, 0ULL);
        checked("cuGraphDestroy", graph);
    }
    ~Graph() { checked("cuGraphExecDestroy", executable_); }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    void launch() { checked("cuGraphLaunch", executable_, stream_); }

  private:
    void* stream_;
    void* executable_ = nullptr;
};

void every_launch_communicates_anew(int mode) {
    Queue queue;
    MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    Ints own, sum, from_last, prefix, received, exchanged, either;
    begin(queue, mode);
    expect_ok(MPIX_Allreduce_enqueue(own.get(), sum.get(), kCount, MPI_INT, MPI_SUM, queue.comm), "Allreduce");
    expect_ok(MPIX_Bcast_enqueue(from_last.get(), kCount, MPI_INT, size - 1, queue.comm), "Bcast");
    expect_ok(MPIX_Scan_enqueue(own.get(), prefix.get(), kCount, MPI_INT, MPI_SUM, queue.comm), "Scan");
    expect_ok(MPIX_Allreduce_enqueue(own.get(), either.get(), kCount, MPI_INT, MPI_BOR, queue.comm), "MPI_BOR");
    expect_ok(MPIX_Barrier_enqueue(queue.comm), "Barrier");
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    expect_ok(MPIX_Irecv_enqueue(exchanged.get(), kCount, MPI_INT, before, 4, queue.comm, &requests[0]), "Irecv");
    expect_ok(MPIX_Isend_enqueue(sum.get(), kCount, MPI_INT, next, 4, queue.comm, &requests[1]), "Isend");
    expect_ok(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), "Waitall");
    if (rank == 0)
        expect_ok(MPIX_Send_enqueue(own.get(), kCount, MPI_INT, 1, 5, queue.comm), "Send");
    if (rank == 1)
        expect_ok(MPIX_Recv_enqueue(received.get(), kCount, MPI_INT, 0, 5, queue.comm, MPI_STATUS_IGNORE), "Recv");
    Graph graph(queue, "calls that are captured");
    sum.expect_all(0, "a captured call has run");
    for (int round = 1; round <= 3; ++round) {
        own.set(1 << (round + rank));
        from_last.set(rank == size - 1 ? round : 0);
        graph.launch();
        const int factor = 1 << round, all = factor * ((1 << size) - 1);
        if (round == 2)  // calls that are not captured come between
            expect_ok(MPIX_Allreduce_enqueue(MPI_IN_PLACE, received.get(), kCount, MPI_INT, MPI_MAX, queue.comm),
                      "Max");
        queue.synchronize();
        sum.expect_all(all, "MPIX_Allreduce_enqueue");
        either.expect_all(all, "MPIX_Allreduce_enqueue of MPI_BOR");
        from_last.expect_all(round, "MPIX_Bcast_enqueue");
        prefix.expect_all(factor * ((2 << rank) - 1), "MPIX_Scan_enqueue");
        exchanged.expect_all(all, "MPIX_Isend_enqueue");
        if (rank == 1 || round == 2)
            received.expect_all(factor, "MPIX_Send_enqueue");
    }
}

void add(void* in, void* inout, int* count, MPI_Datatype*) {
    for (int i = 0; i < *count; ++i)
        static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

void what_the_host_would_do_is_refused() {
    Queue queue;
    MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
    std::vector<int> host(kCount, 1);
    Ints own(1), sum;
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(add, 1, &op);
    MPI_Datatype pairs = MPI_DATATYPE_NULL;
    MPI_Type_vector(kCount / 2, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Request request = MPI_REQUEST_NULL;
    const int next = (rank + 1) % size;
    begin(queue, kGlobal);
    expect_error(MPIX_Allreduce_enqueue(host.data(), sum.get(), kCount, MPI_INT, MPI_SUM, queue.comm),
                 {"MPIX_Allreduce_enqueue", "being captured", "buffer", "What to do"}, "a host buffer");
    expect_error(MPIX_Allreduce_enqueue(own.get(), sum.get(), kCount, MPI_INT, op, queue.comm),
                 {"MPIX_Allreduce_enqueue", "being captured", "What to do"}, "an operator of the program's");
    expect_error(MPIX_Send_enqueue(host.data(), kCount, MPI_INT, next, 0, queue.comm),
                 {"MPIX_Send_enqueue", "being captured", "buffer"}, "a message of host memory");
    expect_error(MPIX_Isend_enqueue(own.get(), 1, pairs, next, 0, queue.comm, &request),
                 {"MPIX_Isend_enqueue", "being captured"}, "a message that is not contiguous");
    expect_error(MPIX_Send_enqueue(own.get(), kCount, MPI_INT, rank, 0, queue.comm),
                 {"MPIX_Send_enqueue", "being captured", "to the rank itself"}, "a message to itself");
    expect_ok(MPIX_Allreduce_enqueue(own.get(), sum.get(), kCount, MPI_INT, MPI_SUM, queue.comm), "after errors");
    Graph graph(queue, "a capture in which calls were refused");
    graph.launch();
    expect_ok(MPIX_Allreduce_enqueue(host.data(), own.get(), kCount, MPI_INT, MPI_SUM, queue.comm), "outside");
    queue.synchronize();
    sum.expect_all(size, "a sum in the graph");
    own.expect_all(size, "a sum of host memory after it");
    MPI_Type_free(&pairs);
    MPI_Op_free(&op);
}

void an_invalid_capture_is_named() {
    Queue queue;
    MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
    Ints own(2);
    void *memory = nullptr, *graph = nullptr;
    begin(queue, kThreadLocal);
    expect(cuda("cuMemAlloc_v2", &memory, std::size_t{64}) == 900, "cuMemAlloc within a capture");
    expect_error(MPIX_Allreduce_enqueue(MPI_IN_PLACE, own.get(), kCount, MPI_INT, MPI_SUM, queue.comm),
                 {"MPIX_Allreduce_enqueue", "invalidated", "cudaStreamEndCapture"}, "a collective");
    expect_error(MPIX_Send_enqueue(own.get(), kCount, MPI_INT, (rank + 1) % size, 0, queue.comm),
                 {"MPIX_Send_enqueue", "invalidated"}, "a message");
    expect(cuda("cuStreamEndCapture", queue.stream(), &graph) == 901, "cuStreamEndCapture of an invalid capture");
    expect_ok(MPIX_Allreduce_enqueue(MPI_IN_PLACE, own.get(), kCount, MPI_INT, MPI_SUM, queue.comm), "after it");
    queue.synchronize();
    own.expect_all(2 * size, "a sum after an invalid capture");
}

void messages_stay_on_their_side_of_a_capture() {
    Queue queue;
    MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    Ints own(rank + 1), in, sum;
    MPI_Request requests[2];
    MPIX_Irecv_enqueue(in.get(), kCount, MPI_INT, before, 1, queue.comm, &requests[0]);
    MPIX_Isend_enqueue(own.get(), kCount, MPI_INT, next, 1, queue.comm, &requests[1]);
    begin(queue, kGlobal);
    expect_error(MPIX_Barrier_enqueue(queue.comm), {"MPIX_Barrier_enqueue", "before the capture"}, "begun before it");
    { Graph graph(queue, "a capture after messages"); }
    expect_ok(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), "messages of before a capture");
    queue.synchronize();
    in.expect_all(before + 1, "messages of before a capture");
    begin(queue, kGlobal);
    MPIX_Irecv_enqueue(in.get(), kCount, MPI_INT, before, 1, queue.comm, &requests[0]);
    MPIX_Isend_enqueue(own.get(), kCount, MPI_INT, next, 1, queue.comm, &requests[1]);
    { Graph graph(queue, "a capture with messages"); }
    expect_error(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), {"not waited for in the capture"},
                 "messages of a capture that has ended");
    expect_ok(MPIX_Allreduce_enqueue(own.get(), sum.get(), kCount, MPI_INT, MPI_SUM, queue.comm), "after it");
    queue.synchronize();
    sum.expect_all(size * (size + 1) / 2, "a sum after all");
}

// The communicator's calls are the host's.
void the_hosts_calls_are_refused() {
    Queue queue;
    MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
    Ints own(rank + 1), sum;
    begin(queue, kGlobal);
    expect_error(MPIX_Allreduce_enqueue(own.get(), sum.get(), kCount, MPI_INT, MPI_SUM, queue.comm),
                 {"MPIX_Allreduce_enqueue", "being captured", "switched off"}, "a collective");
    expect_error(MPIX_Barrier_enqueue(queue.comm), {"MPIX_Barrier_enqueue", "being captured"}, "a barrier");
    expect_error(MPIX_Send_enqueue(own.get(), kCount, MPI_INT, (rank + 1) % size, 1, queue.comm),
                 {"MPIX_Send_enqueue", "being captured"}, "a message");
    { Graph graph(queue, "a capture in which the host's calls were refused"); }
    expect_ok(MPIX_Allreduce_enqueue(own.get(), sum.get(), kCount, MPI_INT, MPI_SUM, queue.comm), "after it");
    queue.synchronize();
    sum.expect_all(size * (size + 1) / 2, "a sum by the host");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    if (argc > 1) {
        the_hosts_calls_are_refused();
    } else {
        every_launch_communicates_anew(kGlobal);
        every_launch_communicates_anew(kThreadLocal);
        what_the_host_would_do_is_refused();
        an_invalid_capture_is_named();
        messages_stay_on_their_side_of_a_capture();
    }
    if (failures != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
