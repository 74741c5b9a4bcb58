// MPI calls of every kind while the program captures a stream into a graph, in every mode of a capture, made by the
// thread that captures and by another: the calls work, and the capture stays valid. Each round has messages and
// communicators of its own, so that what is set up at the first use is set up beside a capture too.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 3 --gpus 3 --relinked -x SWITCHYARD_NCCL=no
// launch: -n 2 --gpus 2 --relinked -x VGPU_JITTER=5 -x SWITCHYARD_SYNC=legacy
// test-timeout: 120
// clang-format on
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../gpu.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

using Ints = std::vector<int>;

// Device memory that is written and read beside a capture: by copies on a stream that nobody captures.
class Data {
  public:
    explicit Data(std::size_t count, int value = 0) : count_(count), memory_(gpu::Kind::kDevice, count * sizeof(int)) {
        gpu::Driver& driver = gpu::Driver::get();
        driver.check("cuStreamCreate", driver.call<int(void**, unsigned)>("cuStreamCreate")(&stream_, 1));
        set(value);
    }
    ~Data() {
        gpu::Driver::check("cuStreamDestroy", gpu::Driver::get().call<int(void*)>("cuStreamDestroy_v2")(stream_));
    }
    Data(const Data&) = delete;
    Data& operator=(const Data&) = delete;

    void* get() const { return memory_.address(); }
    void set(int value) {
        const Ints all(count_, value);
        move(memory_.address(), all.data());
    }
    bool is(int value) {
        Ints all(count_);
        move(all.data(), memory_.address());
        return all == Ints(count_, value);
    }

  private:
    void move(void* to, const void* from) {
        gpu::Driver& driver = gpu::Driver::get();
        driver.check("cuMemcpyAsync", driver.call<int(void*, const void*, std::size_t, void*)>("cuMemcpyAsync")(
                                          to, from, count_ * sizeof(int), stream_));
        driver.check("cuStreamSynchronize", driver.call<int(void*)>("cuStreamSynchronize")(stream_));
    }
    std::size_t count_;
    gpu::Memory memory_;
    void* stream_ = nullptr;
};

// CUDA's interaction mode of this thread, for what the test itself does beside a capture.
class Relaxed {
  public:
    Relaxed() { exchange(); }
    ~Relaxed() { exchange(); }
    Relaxed(const Relaxed&) = delete;
    Relaxed& operator=(const Relaxed&) = delete;

  private:
    void exchange() {
        gpu::Driver::check("cuThreadExchangeStreamCaptureMode",
                           gpu::Driver::get().call<int(int*)>("cuThreadExchangeStreamCaptureMode")(&mode_));
    }
    int mode_ = 2;
};

// Runs what the test needs of CUDA outside the rules for the thread.
template <typename Do>
auto beside(Do action) {
    const Relaxed relaxed;
    return action();
}

struct Buffers {
    std::size_t count;
    Data out, in;
    explicit Buffers(std::size_t n) : count(n), out(n, rank + 1), in(n) {}
    int n() const { return static_cast<int>(count); }
    void expect_in(int value, const char* what) {
        expect(beside([&] { return in.is(value); }), std::string(what) + " of " + std::to_string(count));
        beside([&] { in.set(0); });
    }
};

void messages(Buffers& b, MPI_Comm comm) {
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Sendrecv(b.out.get(), b.n(), MPI_INT, next, 1, b.in.get(), b.n(), MPI_INT, before, 1, comm, MPI_STATUS_IGNORE);
    b.expect_in(before + 1, "MPI_Sendrecv");
    MPI_Request requests[2];
    MPI_Irecv(b.in.get(), b.n(), MPI_INT, before, 2, comm, &requests[0]);
    MPI_Isend(b.out.get(), b.n(), MPI_INT, next, 2, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    b.expect_in(before + 1, "MPI_Isend");
    MPI_Datatype pairs = MPI_DATATYPE_NULL;  // every other element
    MPI_Type_vector(b.n() / 2, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Sendrecv(b.out.get(), 1, pairs, next, 3, b.in.get(), b.n() / 2, MPI_INT, before, 3, comm, MPI_STATUS_IGNORE);
    MPI_Type_free(&pairs);
    beside([&] { b.in.set(0); });
}

void collectives(Buffers& b, MPI_Comm comm) {
    const int sum = size * (size + 1) / 2;
    MPI_Allreduce(b.out.get(), b.in.get(), b.n(), MPI_INT, MPI_SUM, comm);
    b.expect_in(sum, "MPI_Allreduce");
    MPI_Allreduce(b.out.get(), b.in.get(), b.n(), MPI_INT, MPI_BXOR, comm);  // which NCCL does not have
    beside([&] { b.in.set(rank == 0 ? 9 : 0); });
    MPI_Bcast(b.in.get(), b.n(), MPI_INT, 0, comm);
    b.expect_in(9, "MPI_Bcast");
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(b.out.get(), b.in.get(), b.n(), MPI_INT, MPI_MAX, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    b.expect_in(size, "MPI_Iallreduce");
    MPI_Barrier(comm);
}

void window(Buffers& b, MPI_Comm comm) {
    MPI_Win made = MPI_WIN_NULL;
    MPI_Win_create(b.in.get(), static_cast<MPI_Aint>(b.count * sizeof(int)), sizeof(int), MPI_INFO_NULL, comm, &made);
    MPI_Win_fence(0, made);
    MPI_Put(b.out.get(), b.n(), MPI_INT, (rank + 1) % size, 0, b.n(), MPI_INT, made);
    MPI_Win_fence(0, made);
    MPI_Win_free(&made);
    b.expect_in((rank + size - 1) % size + 1, "MPI_Put");
}

void all_calls(std::vector<Buffers*>& buffers) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (Buffers* b : buffers) {
        messages(*b, comm);
        collectives(*b, comm);
        if (b == buffers.front())
            window(*b, comm);
    }
    MPI_Comm_free(&comm);
}

// One capture, in which one host function is captured, and the calls beside it.
void round(int mode, bool blocking, bool other_thread) {
    const std::string what = std::string("a capture of mode ") + std::to_string(mode) + " of a " +
                             (blocking ? "blocking stream" : "stream") + (other_thread ? ", from a thread" : "");
    gpu::Driver& driver = gpu::Driver::get();
    Buffers small(40), large(100000);
    std::vector<Buffers*> buffers{&small, &large};
    void* stream = nullptr;
    driver.check("cuStreamCreate", driver.call<int(void**, unsigned)>("cuStreamCreate")(&stream, blocking ? 0 : 1));
    driver.check("cuStreamBeginCapture", driver.call<int(void*, int)>("cuStreamBeginCapture_v2")(stream, mode));
    int calls = 0;
    driver.check("cuLaunchHostFunc", driver.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(
                                         stream, [](void* count) { ++*static_cast<int*>(count); }, &calls));
    if (other_thread)
        std::thread([&] {
            driver.use(rank % driver.devices);
            all_calls(buffers);
        }).join();
    else
        all_calls(buffers);
    void *graph = nullptr, *executable = nullptr;
    const int ended = driver.call<int(void*, void**)>("cuStreamEndCapture")(stream, &graph);
    expect(ended == 0, what + " ends with CUDA error " + std::to_string(ended));
    expect(calls == 0, what + ": it has run");
    if (ended == 0) {
        driver.check("cuGraphInstantiateWithFlags", driver.call<int(void**, void*, unsigned long long)>(
                                                        "cuGraphInstantiateWithFlags")(&executable, graph, 0));
        driver.check("cuGraphLaunch", driver.call<int(void*, void*)>("cuGraphLaunch")(executable, stream));
        driver.check("cuStreamSynchronize", driver.call<int(void*)>("cuStreamSynchronize")(stream));
        expect(calls == 1, what + ": its graph has not run");
        driver.check("cuGraphExecDestroy", driver.call<int(void*)>("cuGraphExecDestroy")(executable));
        driver.check("cuGraphDestroy", driver.call<int(void*)>("cuGraphDestroy")(graph));
    }
    driver.check("cuStreamDestroy", driver.call<int(void*)>("cuStreamDestroy_v2")(stream));
}

}  // namespace

int main(int argc, char** argv) {
    if (OMPI_MAJOR_VERSION < 5)  // "rdma" needs process_vm_readv for MPI_Win_create, which containers forbid
        setenv("OMPI_MCA_osc", "^rdma,ucx", 1);
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (const bool blocking : {false, true})
        for (int mode = 0; mode < 3; ++mode)
            for (const bool other_thread : {false, true})
                if (!other_thread || provided >= MPI_THREAD_SERIALIZED)
                    round(mode, blocking, other_thread);
    if (failures != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
