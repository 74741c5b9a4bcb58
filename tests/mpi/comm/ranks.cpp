// What many ranks cost, for ranks.test: the ranks set up a communicator of all and one of each half with device memory,
// and use them. Argument: how many sums on each. Rank 0 prints the time of the first ones and of one more, and the
// largest resident set of any rank.
#include <mpi.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

void sum(MPI_Comm comm) {
    failures += comm_test::Use(comm, "many ranks").just_sum();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int sums = argc > 1 ? std::atoi(argv[1]) : 1;
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const double begin = MPI_Wtime();
    MPI_Comm half = MPI_COMM_NULL;
    if (sums > 0)
        sum(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    if (sums > 0)
        sum(half);
    const double set_up = MPI_Wtime();
    for (int i = 1; i < sums; ++i) {
        sum(MPI_COMM_WORLD);
        sum(half);
    }
    const double end = MPI_Wtime();
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    long largest = 0;
    MPI_Reduce(&used.ru_maxrss, &largest, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("set-up %.3f s, sum %.4f s, %ld KiB\n", set_up - begin,
                    sums > 1 ? (end - set_up) / (2 * (sums - 1)) : 0.0, largest);
    MPI_Comm_free(&half);
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
