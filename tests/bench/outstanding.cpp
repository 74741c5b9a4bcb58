// What operations that are under way cost a call that has nothing to do with them: the time of a barrier while this
// many receives into device memory are posted and no message for them comes, over the time of one with none.
//   outstanding [RECEIVES [BYTES]]    two ranks; prints "RECEIVES RATIO", both sides from one run
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

double best_barrier() {
    constexpr int kRuns = 20, kBarriers = 200;
    double best = 1e30;
    for (int run = 0; run < kRuns; ++run) {
        const double start = MPI_Wtime();
        for (int i = 0; i < kBarriers; ++i)
            MPI_Barrier(MPI_COMM_WORLD);
        best = std::min(best, MPI_Wtime() - start);
    }
    return best;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int count = argc > 1 ? std::atoi(argv[1]) : 300;
    const int bytes = argc > 2 ? std::atoi(argv[2]) : 1 << 17;
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    std::vector<MPI_Request> requests(static_cast<std::size_t>(count), MPI_REQUEST_NULL);
    std::vector<gpu::Memory> memory;
    for (int i = 0; i < count; ++i)
        memory.emplace_back(gpu::Kind::kDevice, static_cast<std::size_t>(bytes));
    const double without = best_barrier();
    for (int i = 0; i < count; ++i)
        MPI_Irecv(memory[i].at(0), bytes, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &requests[i]);
    const double with = best_barrier();
    for (int i = 0; i < count; ++i)
        MPI_Send(memory[i].at(0), 0, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD);
    MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
    if (rank == 0)
        std::printf("%d outstanding receives: %.2f times the barrier without\n", count, with / without);
    MPI_Finalize();
    return 0;
}
