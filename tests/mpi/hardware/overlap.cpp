// What a program has queued on a stream of its own does not hold up its MPI calls on other memory: a halo is exchanged
// while the interior's kernel runs, and a stream may wait for what the host does after the call. Here a host function
// waits, on a stream that synchronises with the default one, until the call has returned, MPI_Finalize at last.
// Streams share the device's hardware queues, 8 unless the program asks for more, and what is queued there behind the
// waiting stream waits with it: no other stream is to share its queue.
// first: the first call of all on device memory is such a one. It does not wait where SWITCHYARD_EAGER has loaded the
// library's kernels in MPI_Init, since loading waits for the whole context.
// launch: -n 2 --gpus 2 -x CUDA_DEVICE_MAX_CONNECTIONS=32 -x SWITCHYARD_P2P_COMM=pair
// launch: -n 2 --gpus 2 -x CUDA_DEVICE_MAX_CONNECTIONS=32 -x SWITCHYARD_P2P_COMM=shared
// launch: -n 2 --gpus 2 -x CUDA_DEVICE_MAX_CONNECTIONS=32 -x SWITCHYARD_NCCL=no
// launch: -n 3 --gpus 2 -x CUDA_DEVICE_MAX_CONNECTIONS=32 -x VGPU_JITTER=3
// launch: -n 2 --gpus 2 -x CUDA_DEVICE_MAX_CONNECTIONS=32 -x SWITCHYARD_EAGER=1 -- first
// test-timeout: 240
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../gpu.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (!right && failures++ < 5)
        std::fprintf(stderr, "FAILED: rank %d: %s\n", rank, what.c_str());
}

void* make_stream() {
    constexpr unsigned kBlocking = 0;  // CU_STREAM_DEFAULT
    void* stream = nullptr;
    auto* create = gpu::Driver::get().call<int(void**, unsigned)>("cuStreamCreate");
    gpu::Driver::check("cuStreamCreate", create(&stream, kBlocking));
    return stream;
}

// Work of the program's on a stream that is not over before it says so, or half a minute has passed.
class Queued {
  public:
    explicit Queued(void* stream) : stream_(stream) {
        auto* queue = gpu::Driver::get().call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc");
        gpu::Driver::check("cuLaunchHostFunc", queue(stream_, wait, this));
    }
    Queued(const Queued&) = delete;
    Queued& operator=(const Queued&) = delete;
    // Returns whether it was still under way.
    bool end() {
        const bool was = !over_;
        let_go_ = true;
        auto* synchronize = gpu::Driver::get().call<int(void*)>("cuStreamSynchronize");
        gpu::Driver::check("cuStreamSynchronize", synchronize(stream_));
        return was;
    }

  private:
    static void wait(void* self) {
        auto& queued = *static_cast<Queued*>(self);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!queued.let_go_ && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        queued.over_ = true;
    }

    void* const stream_;
    std::atomic<bool> let_go_{false}, over_{false};
};

struct Exchange {
    const char* name;
    // From `out` into `in`, `count` ints.
    std::function<void(void* out, void* in, int count)> call;
    // What `in` has then at i.
    std::function<int(int i)> wanted;
};

int value(int of, int i) {
    return of * 1009 + i % 1000;
}
int left() {
    return (rank + size - 1) % size;
}
int right() {
    return (rank + 1) % size;
}
int from_left(int i) {
    return value(left(), i);
}
int sum(int i) {
    int all = 0;
    for (int of = 0; of < size; ++of)
        all += value(of, i);
    return all;
}
int all_bits(int i) {
    int all = -1;
    for (int of = 0; of < size; ++of)
        all &= value(of, i);
    return all;
}

void columns(void* out, void* in, int count) {
    MPI_Datatype column = MPI_DATATYPE_NULL;
    MPI_Type_vector(count / 4, 2, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(out, 1, column, right(), 0, in, 1, column, left(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
}

void persistent(void* out, void* in, int count) {
    MPI_Request both[2];
    MPI_Recv_init(in, count, MPI_INT, left(), 0, MPI_COMM_WORLD, &both[0]);
    MPI_Send_init(out, count, MPI_INT, right(), 0, MPI_COMM_WORLD, &both[1]);
    MPI_Startall(2, both);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
}

void begun(void* out, void* in, int count) {
    MPI_Request both[2];
    MPI_Irecv(in, count, MPI_INT, left(), 0, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(out, count, MPI_INT, right(), 0, MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

void begun_sum(void* out, void* in, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

const std::vector<Exchange> exchanges = {
    {"MPI_Sendrecv",
     [](void* out, void* in, int count) {
         MPI_Sendrecv(out, count, MPI_INT, right(), 0, in, count, MPI_INT, left(), 0, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE);
     },
     from_left},
    {"MPI_Sendrecv of a column", columns, [](int i) { return i % 4 < 2 ? from_left(i) : -1; }},
    {"MPI_Isend and MPI_Irecv", begun, from_left},
    {"MPI_Startall", persistent, from_left},
    {"MPI_Allreduce",
     [](void* out, void* in, int count) { MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD); }, sum},
    {"MPI_Allreduce(MPI_BAND)",
     [](void* out, void* in, int count) { MPI_Allreduce(out, in, count, MPI_INT, MPI_BAND, MPI_COMM_WORLD); },
     all_bits},
    {"MPI_Iallreduce", begun_sum, sum},
    {"MPI_Alltoall",
     [](void* out, void* in, int count) {
         MPI_Alltoall(out, count / size, MPI_INT, in, count / size, MPI_INT, MPI_COMM_WORLD);
     },
     nullptr},
    {"MPI_Reduce_local", [](void* out, void* in, int count) { MPI_Reduce_local(out, in, count, MPI_INT, MPI_MAX); },
     [](int i) { return value(rank, i); }},
};

void exchange(const Exchange& one, gpu::Kind kind, int count, void* stream, bool first) {
    std::vector<std::byte> mine(count * sizeof(int)), empty(count * sizeof(int), std::byte{0xff});
    for (int i = 0; i < count; ++i) {
        const int here = value(rank, i);
        std::memcpy(&mine[i * sizeof(int)], &here, sizeof here);
    }
    const gpu::Memory out(kind, mine), in(kind, empty);
    const std::string what =
        std::string(one.name) + " of " + std::to_string(count) + " ints in " + gpu::name(kind) + " memory";
    if (!first) {
        one.call(out.address(), in.address(), count);  // allocates, and loads kernels
        gpu::Driver::get().copy(in.address(), empty.data(), empty.size());
    }
    Queued queued(stream);
    one.call(out.address(), in.address(), count);
    expect(queued.end(), what + " waits for the program's stream");
    const std::vector<std::byte> content = in.read();
    for (int i = 0; i < count; ++i) {
        int here = 0;
        std::memcpy(&here, &content[i * sizeof(int)], sizeof here);
        const int each = count / size;
        const int wanted = one.wanted ? one.wanted(i) : i < each * size ? value(i / each, rank * each + i % each) : -1;
        if (here != wanted)
            return expect(false, what + ": " + std::to_string(here) + " at " + std::to_string(i) + " in place of " +
                                     std::to_string(wanted));
    }
}

}  // namespace

int main(int argc, char** argv) {
    const bool first = argc > 1 && std::string_view(argv[1]) == "first";
    const char* const number = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    if (first && number != nullptr)
        gpu::Driver::get().use(std::atoi(number) % gpu::Driver::get().devices);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    void* const stream = make_stream();
    for (const Exchange& one : exchanges)
        for (const gpu::Kind kind : {gpu::Kind::kDevice, gpu::Kind::kManaged})
            for (const int count : {4, 1 << 10, 1 << 18})
                exchange(one, kind, count, stream, first);
    Queued last(stream);  // where something would be freed, which waits for the whole device
    MPI_Finalize();
    expect(last.end(), "MPI_Finalize waits for the program's stream");
    return failures == 0 ? 0 : 1;
}
