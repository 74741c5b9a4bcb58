// Makes N host calls of one kind: what instructions.test counts and host_path.py times.
//   host_calls CALL N            CALL: send, recv (to and from MPI_PROC_NULL), allreduce (on MPI_COMM_SELF), wait (a
//   message from this process to itself by Irecv, Isend and a Wait for each), waitall (the same with Waitall)
// With HOST_CALLS_USE_GPU=1 the process has a CUDA context, as a GPU program has that calls MPI on host memory. With
// HOST_CALLS_IN_FLIGHT=FROM rank FROM has sent the one after it a large message in device memory, which is received
// when rank 0 has made its calls; the other ranks make none.
//   host_calls time CALL BYTES   ping-pong or allreduce between all ranks; prints microseconds a call, the best of
//   several runs
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

// noinline: callgrind counts what happens below this function alone.
__attribute__((noinline)) void repeat(std::string_view call, long times) {
    double in = 1, out = 0;
    for (long i = 0; i < times; ++i) {
        if (call == "send")
            MPI_Send(&in, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
        else if (call == "recv")
            MPI_Recv(&in, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (call == "allreduce")
            MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        else {
            MPI_Request requests[2];
            MPI_Irecv(&out, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[0]);
            MPI_Isend(&in, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[1]);
            if (call == "waitall") {
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else {
                MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
                MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            }
        }
    }
}

// The calls of rank 0 while a device message is under way from rank `from` to the next one.
void repeat_beside(int rank, int from, std::string_view call, long times) {
    constexpr int kBytes = 1 << 20;
    const gpu::Memory memory(gpu::Kind::kDevice, kBytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == from)
        MPI_Isend(memory.at(0), kBytes, MPI_BYTE, from + 1, 0, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        repeat(call, times);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == from + 1)
        MPI_Recv(memory.at(0), kBytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

double best_microseconds(std::string_view call, int bytes) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::vector<char> a(static_cast<std::size_t>(bytes) + 8, 1), b(a.size());
    const int count = bytes / 8;
    const int inner = bytes > 65536 ? 50 : 2000;
    double best = 1e30;
    for (int run = 0; run < 12; ++run) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (int i = 0; i < inner; ++i) {
            if (call == "allreduce") {
                MPI_Allreduce(a.data(), b.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            } else if (rank == 0) {
                MPI_Send(a.data(), bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
                MPI_Recv(b.data(), bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (rank == 1) {
                MPI_Recv(b.data(), bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(a.data(), bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            }
        }
        best = std::min(best, (MPI_Wtime() - start) / inner * 1e6);
    }
    return best;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: host_calls CALL N | host_calls time CALL BYTES\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char* from = std::getenv("HOST_CALLS_IN_FLIGHT");
    if (std::getenv("HOST_CALLS_USE_GPU") != nullptr)
        gpu::Driver::get().use(from != nullptr ? rank : 0);
    if (std::string_view(argv[1]) == "time") {
        const double best = best_microseconds(argv[2], std::atoi(argv[3]));
        if (rank == 0)
            std::printf("%.4f\n", best);
    } else if (from != nullptr) {
        repeat_beside(rank, std::atoi(from), argv[1], std::atol(argv[2]));
    } else {
        repeat(argv[1], std::atol(argv[2]));
    }
    MPI_Finalize();
    return 0;
}
