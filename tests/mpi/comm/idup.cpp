// Collectives on device memory on a communicator of which an MPI_Comm_idup is under way: the first of them makes an
// NCCL communicator, or finds that there can be none, and what the ranks tell each other for it stays apart from what
// MPI sends for the duplicate, which is further on some ranks than on others when the calls begin. Every sum is
// compared with arithmetic, and the duplicate is used too. Argument: rounds.
// clang-format off
// launch: -n 2 --gpus 1 -- 400
// launch: -n 4 --gpus 1 -- 400
// launch: -n 2 --gpus 2 -- 100
// launch: -n 4 --gpus 4 -x VGPU_JITTER=3 -- 100
// test-timeout: 120
// clang-format on
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "use.hpp"

namespace {

constexpr int kCalls = 3;

// MPI goes on with what does not block.
void progress_for(double seconds) {
    int flag = 0;
    for (const double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

int round(int rank) {
    MPI_Comm base = MPI_COMM_NULL, made = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &base);
    MPI_Comm_idup(base, &made, &request);
    if (rank % 2 == 0)
        progress_for(2e-3);
    int failures = 0;
    for (int call = 0; call < kCalls; ++call)
        failures += comm_test::Use(base, "beside MPI_Comm_idup").just_sum();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    failures += comm_test::Use(made, "made by MPI_Comm_idup").just_sum();
    MPI_Comm_free(&made);
    MPI_Comm_free(&base);
    return failures;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, failures = 0, anywhere = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(rank % driver.devices);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    for (int i = 0; i < rounds; ++i)
        failures += round(rank);
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
