// The host waits for nothing: each rank's stream is held up by a function of the host's, and the ranks enqueue one
// after the other, each only when the one before is through. A call that waited for its stream, or for another rank,
// would hang. Then the streams are let go, and the results must be right. Before that, the first message of all between
// two ranks comes from a late sender to a receiver that waits for its stream, outside MPI. At the end a communicator is
// freed, and MPI finalised, with work still on the stream.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 4 --gpus 4 --relinked -x VGPU_JITTER=8
// launch: -n 3 --gpus 3 --relinked -x VGPU_NCCL_VERSION=2.18
// test-timeout: 60
// clang-format on
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "queue.hpp"

namespace {

using stream_test::Bytes;
using stream_test::Queue;

constexpr int kCount = 5000, kRounds = 6;

int rank = 0, size = 0, failures = 0;

// Holds a stream up until it is opened.
class Gate {
  public:
    explicit Gate(Queue& queue) {
        const auto wait = [](void* gate) {
            while (!static_cast<Gate*>(gate)->open_)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        };
        auto& driver = gpu::Driver::get();
        driver.check("cuLaunchHostFunc",
                     driver.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(queue.stream(), wait, this));
    }
    void open() { open_ = true; }

  private:
    std::atomic<bool> open_{false};
};

Bytes numbers(int count, int first, int step = 0) {
    Bytes bytes(static_cast<std::size_t>(count) * sizeof(int));
    for (int i = 0; i < count; ++i) {
        const int value = first + i * step;
        std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(int), &value, sizeof value);
    }
    return bytes;
}

void expect(const Bytes& found, const Bytes& wanted, const std::string& what) {
    if (found == wanted)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d of %d: %s is wrong\n", rank, size, what.c_str());
}

struct Results {
    std::vector<std::pair<const gpu::Memory*, std::string>> found;
    std::vector<Bytes> wanted;
    void add(Queue& queue, gpu::Memory& memory, Bytes expected, const char* what) {
        found.emplace_back(&queue.take(memory), what);
        wanted.push_back(std::move(expected));
    }
};

// Of every kind of memory that NCCL needs help with, too.
void enqueue(Queue& queue, Results& results, gpu::Kind kind) {
    const int all = size * (size + 1) / 2, left = (rank + size - 1) % size, right = (rank + 1) % size;
    gpu::Memory& sum = queue.buffer(kind, numbers(kCount, rank + 1));
    MPIX_Allreduce_enqueue(MPI_IN_PLACE, sum.address(), kCount, MPI_INT, MPI_SUM, queue.comm);
    results.add(queue, sum, numbers(kCount, all), "MPIX_Allreduce_enqueue");

    gpu::Memory& from = queue.buffer(kind, numbers(kCount, rank, 1));
    gpu::Memory& to = queue.buffer(kind, numbers(kCount, -1));
    MPI_Request requests[2];
    MPIX_Irecv_enqueue(to.address(), kCount, MPI_INT, left, 7, queue.comm, &requests[0]);
    MPIX_Isend_enqueue(from.address(), kCount, MPI_INT, right, 7, queue.comm, &requests[1]);
    MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
    results.add(queue, to, numbers(kCount, left, 1), "MPIX_Irecv_enqueue");

    gpu::Memory& message = queue.buffer(kind, numbers(kCount, rank == 0 ? 5 : 0));
    if (rank == 0)
        MPIX_Send_enqueue(message.address(), kCount, MPI_INT, 1, 3, queue.comm);
    if (rank == 1)
        MPIX_Recv_enqueue(message.address(), kCount, MPI_INT, 0, 3, queue.comm, MPI_STATUS_IGNORE);
    results.add(queue, message, numbers(kCount, rank <= 1 ? 5 : 0), "MPIX_Recv_enqueue");

    gpu::Memory& data = queue.buffer(kind, numbers(kCount, rank == size - 1 ? 9 : 0));
    MPIX_Bcast_enqueue(data.address(), kCount, MPI_INT, size - 1, queue.comm);
    results.add(queue, data, numbers(kCount, 9), "MPIX_Bcast_enqueue");

    gpu::Memory& many = queue.buffer(kind, numbers(kCount * size, rank));
    MPIX_Alltoall_enqueue(MPI_IN_PLACE, kCount, MPI_INT, many.address(), kCount, MPI_INT, queue.comm);
    Bytes wanted;
    for (int r = 0; r < size; ++r) {
        const Bytes part = numbers(kCount, r);
        wanted.insert(wanted.end(), part.begin(), part.end());
    }
    results.add(queue, many, wanted, "MPIX_Alltoall_enqueue");

    gpu::Memory& mine = queue.buffer(kind, numbers(kCount, rank));
    gpu::Memory& gathered = queue.buffer(kind, numbers(kCount * size, -1));
    MPIX_Allgather_enqueue(mine.address(), kCount, MPI_INT, gathered.address(), kCount, MPI_INT, queue.comm);
    results.add(queue, gathered, wanted, "MPIX_Allgather_enqueue");

    gpu::Memory& scanned = queue.buffer(kind, numbers(kCount, 1 << rank));  // by kernels
    MPIX_Scan_enqueue(MPI_IN_PLACE, scanned.address(), kCount, MPI_INT, MPI_BOR, queue.comm);
    results.add(queue, scanned, numbers(kCount, (2 << rank) - 1), "MPIX_Scan_enqueue");
    MPIX_Barrier_enqueue(queue.comm);
}

// With four ranks the two have not met in the barriers of MPI_Init.
void late_sender() {
    Queue queue;
    gpu::Memory& message = queue.buffer(gpu::Kind::kDevice, numbers(kCount, rank));
    if (rank == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        MPIX_Send_enqueue(message.address(), kCount, MPI_INT, size - 1, 2, queue.comm);
    } else if (rank == size - 1) {
        MPIX_Recv_enqueue(message.address(), kCount, MPI_INT, 0, 2, queue.comm, MPI_STATUS_IGNORE);
    }
    const gpu::Memory& found = queue.take(message);
    queue.synchronize();
    expect(found.read(), numbers(kCount, rank == size - 1 ? 0 : rank), "a message of a late sender");
}

void held_up() {
    Queue queue;
    Results results;
    Gate gate(queue);
    for (int turn = 0; turn < size; ++turn) {
        if (turn == rank)
            for (int round = 0; round < kRounds; ++round)
                enqueue(queue, results, gpu::kKinds[round % 4]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    gate.open();
    queue.synchronize();
    for (std::size_t i = 0; i < results.found.size(); ++i)
        expect(results.found[i].first->read(), results.wanted[i], results.found[i].second);
}

// A derived type, which kernels pack, on both ends.
void packed() {
    Queue queue;
    MPI_Datatype column = MPI_DATATYPE_NULL;
    MPI_Type_vector(kCount, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    gpu::Memory& from = queue.buffer(gpu::Kind::kDevice, numbers(2 * kCount, rank, 1));
    gpu::Memory& to = queue.buffer(gpu::Kind::kDevice, numbers(2 * kCount, -1));
    Gate gate(queue);
    const int left = (rank + size - 1) % size;
    MPI_Request request = MPI_REQUEST_NULL;
    MPIX_Isend_enqueue(from.address(), 1, column, (rank + 1) % size, 0, queue.comm, &request);
    MPIX_Recv_enqueue(to.address(), 1, column, left, 0, queue.comm, MPI_STATUS_IGNORE);
    MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
    gate.open();
    const gpu::Memory& found = queue.take(to);
    queue.synchronize();
    Bytes wanted = numbers(2 * kCount, -1);
    const Bytes theirs = numbers(2 * kCount, left, 1);
    for (std::size_t i = 0; i < kCount; ++i)
        std::memcpy(&wanted[2 * i * sizeof(int)], &theirs[2 * i * sizeof(int)], sizeof(int));
    expect(found.read(), wanted, "a message of a column");
}

// MPI_Comm_free with work on a stream that is held up for a while.
void freed() {
    Queue queue;
    gpu::Memory& data = queue.buffer(gpu::Kind::kDevice, numbers(kCount, 1));
    Gate gate(queue);
    MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.address(), kCount, MPI_INT, MPI_SUM, queue.comm);
    const gpu::Memory& found = queue.take(data);
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50 * (rank + 1)));
        gate.open();
    });
    MPI_Comm_free(&queue.comm);
    later.join();
    queue.synchronize();
    expect(found.read(), numbers(kCount, size), "MPIX_Allreduce_enqueue before MPI_Comm_free");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    late_sender();
    held_up();
    packed();
    freed();
    auto* left_over = new Queue;  // never freed
    gpu::Memory& data = left_over->buffer(gpu::Kind::kDevice, numbers(kCount, 1));
    MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.address(), kCount, MPI_INT, MPI_SUM, left_over->comm);
    MPI_Finalize();
    expect(data.read(), numbers(kCount, size), "MPIX_Allreduce_enqueue before MPI_Finalize");
    return failures != 0;
}
