// Makes N host calls of one kind: what instructions.test counts and host_path.py times.
//   host_calls CALL N [BYTES]    CALL: send, recv (to and from MPI_PROC_NULL), allreduce (on MPI_COMM_SELF), none
// With HOST_CALLS_USE_GPU=1 the process has a CUDA context, as a GPU program has that calls MPI on host memory.
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
    }
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
    if (std::getenv("HOST_CALLS_USE_GPU") != nullptr)
        gpu::Driver::get().use(0);
    if (std::string_view(argv[1]) == "time") {
        const double best = best_microseconds(argv[2], std::atoi(argv[3]));
        if (rank == 0)
            std::printf("%.4f\n", best);
    } else {
        repeat(argv[1], std::atol(argv[2]));
    }
    MPI_Finalize();
    return 0;
}
