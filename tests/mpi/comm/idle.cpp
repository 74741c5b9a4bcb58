// NCCL communicators that are kept for later ones of the same group give way where NCCL finds no device memory for
// another: the ranks of all three pairs have had one, which are idle, and with those there is no room for that of all
// ranks.
// launch: -n 3 --gpus 3 -x VGPU_MEMORY=2G
#include <mpi.h>

#include <cstdio>

#include "cost.hpp"
#include "use.hpp"

namespace {

constexpr std::size_t kOne = 832;  // MiB of an NCCL communicator of the virtual GPUs
int rank = 0, failures = 0;
std::size_t before = 0;

std::size_t taken() {
    MPI_Barrier(MPI_COMM_WORLD);
    return before - comm_test::cost().device_free;
}

void expect(const char* when, std::size_t mebibytes) {
    const std::size_t now = taken() >> 20;
    if (now / kOne == mebibytes / kOne)
        return;
    std::fprintf(stderr, "FAILED: rank %d: %zu MiB of the device are taken %s, not %zu\n", rank, now, when, mebibytes);
    ++failures;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    before = comm_test::cost().device_free;
    for (int without = 0; without < 3; ++without) {
        MPI_Comm pair = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, rank == without ? MPI_UNDEFINED : 0, 0, &pair);
        if (pair == MPI_COMM_NULL)
            continue;
        failures += comm_test::Use(pair, "a pair").just_sum();
        MPI_Comm_free(&pair);
    }
    expect("by pairs", 2 * kOne);
    failures += comm_test::Use(MPI_COMM_WORLD, "MPI_COMM_WORLD").just_sum();
    expect("by all ranks", kOne);
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
