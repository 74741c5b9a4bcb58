// Sends messages of one size on device memory from one rank to another, for messages.test: what happens after the
// warm-up is counted by others. MPI_Pcontrol(1) and (0) mark its begin and end for message_counts, an allocation of
// kMark bytes does so in the virtual GPUs' log.
//   messages BYTES TIMES [--from RANK] [--warm-up ROUNDS] [--receive host|device]
//   messages BYTES TIMES --halo    every rank to both neighbours in a ring, as MPI_Isend and MPI_Irecv, after one large
//                                  MPI_Bcast, which is all the warm-up there is
// Prints "RANK PID" of every rank. Exit 1 when a payload has not come as it was.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

constexpr std::size_t kMark = 12345;
constexpr double kPauseSeconds = 0.05;
int rank = 0, size = 0;

std::vector<std::byte> payload(std::size_t bytes, int of) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        data[i] = static_cast<std::byte>((i * 2654435761u + static_cast<unsigned>(of) * 97u) >> 13);
    return data;
}

void mark(int level) {
    MPI_Barrier(MPI_COMM_WORLD);
    const gpu::Memory memory(gpu::Kind::kDevice, kMark);
    MPI_Pcontrol(level);
}

// MPI's progress for a while, in which NCCL communicators are made.
void pause() {
    for (const double end = MPI_Wtime() + kPauseSeconds; MPI_Wtime() < end;) {
        int flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int one_way(int bytes, int times, int from, int warm_up, gpu::Kind into) {
    const bool sends = rank == from;
    const auto length = static_cast<std::size_t>(bytes);
    gpu::Memory memory(sends ? gpu::Kind::kDevice : into, length);
    if (sends)
        memory.write(payload(length, from));
    const auto send = [&] {
        if (sends)
            MPI_Send(memory.at(0), bytes, MPI_BYTE, 1 - from, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(memory.at(0), bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    };
    for (int i = 0; i < warm_up; ++i) {
        send();
        pause();
    }
    mark(1);
    for (int i = 0; i < times; ++i)
        send();
    mark(0);
    return memory.read() == payload(length, from) ? 0 : 1;
}

int halo(int bytes, int times) {
    const auto length = static_cast<std::size_t>(bytes);
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    gpu::Memory mine(gpu::Kind::kDevice, payload(length, rank));
    const gpu::Memory from_left(gpu::Kind::kDevice, length), from_right(gpu::Kind::kDevice, length);
    MPI_Bcast(from_left.at(0), bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    mark(1);
    for (int i = 0; i < times; ++i) {
        MPI_Request requests[4];
        MPI_Irecv(from_left.at(0), bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(from_right.at(0), bytes, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(mine.at(0), bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(mine.at(0), bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    mark(0);
    return from_left.read() == payload(length, left) && from_right.read() == payload(length, right) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr,
                     "usage: messages BYTES TIMES [--from RANK] [--warm-up ROUNDS] [--receive host] [--halo]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int bytes = std::atoi(argv[1]), times = std::atoi(argv[2]);
    int from = 0, warm_up = 5;
    gpu::Kind into = gpu::Kind::kDevice;
    bool in_a_ring = false;
    for (int i = 3; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--halo")
            in_a_ring = true;
        else if (option == "--from" && i + 1 < argc)
            from = std::atoi(argv[++i]);
        else if (option == "--warm-up" && i + 1 < argc)
            warm_up = std::atoi(argv[++i]);
        else if (option == "--receive" && i + 1 < argc)
            into = std::string_view(argv[++i]) == "host" ? gpu::Kind::kHost : gpu::Kind::kDevice;
    }
    std::printf("%d %d\n", rank, static_cast<int>(getpid()));
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int bad = in_a_ring ? halo(bytes, times) : one_way(bytes, times, from, warm_up, into);
    if (bad != 0)
        std::fprintf(stderr, "rank %d: the payload is not what was sent\n", rank);
    MPI_Finalize();
    return bad;
}
