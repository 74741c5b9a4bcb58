// Two halves of a job that meet by MPI_Comm_accept and connect, pass device memory between them and on what is merged
// of them, and part, again and again: file descriptors, device memory and host memory are the same after all rounds as
// after the first few, and so is the heap once the caches are full. Arguments: rounds; "host" for host memory.
// clang-format off
// launch: -n 4 --gpus 4 -- 140
// launch: -n 3 --gpus 3 -x VGPU_JITTER=3 -x VGPU_NCCL_VERSION=2.18 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_COMM_CACHE=1 -- 120
// test-timeout: 90
// clang-format on
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cost.hpp"
#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;
bool device = true;

// Rounds after which the caches are full, those of NCCL communicators too, which have device memory. Of each round Open
// MPI 4.1.4 alone keeps 540 bytes at the two ranks that have the port, and 70 at the others; over libfabric 1200
// and 40.
constexpr int kSettled = 60;

std::size_t kept_each_round(bool has_port) {
    if (mpi_test::over("cm"))
        return has_port ? 1800 : 300;
    return has_port ? 800 : 100;
}

void use(MPI_Comm comm, const char* what, bool first_group) {
    if (device) {
        failures += comm_test::Use(comm, what).all(first_group);
        return;
    }
    const std::vector<double> mine(comm_test::kCount, 1.0);
    std::vector<double> sum(mine.size());
    MPI_Allreduce(mine.data(), sum.data(), comm_test::kCount, MPI_DOUBLE, MPI_SUM, comm);
}

void round(const char* port, MPI_Comm half, bool accepts) {
    MPI_Comm between = MPI_COMM_NULL, merged = MPI_COMM_NULL;
    if (accepts)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &between);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &between);
    use(between, "MPI_Comm_accept and connect", accepts);
    MPI_Intercomm_merge(between, accepts ? 0 : 1, &merged);
    use(merged, "merged", true);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&between);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
    device = argc <= 2 || std::string_view(argv[2]) != "host";
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const bool accepts = rank < size / 2;
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, accepts ? 0 : 1, rank, &half);
    char port[MPI_MAX_PORT_NAME] = {};
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    comm_test::Cost early = comm_test::cost();  // the first question opens files itself
    for (int i = 0; i < rounds && failures == 0; ++i) {
        round(port, half, accepts);
        if (i + 1 == kSettled) {
            MPI_Barrier(MPI_COMM_WORLD);
            early = comm_test::cost();
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const bool has_port = rank == 0 || rank == size / 2;
    failures +=
        comm_test::dearer(rank, early, comm_test::cost(), rounds - kSettled, {32768, kept_each_round(has_port)});
    if (rank == 0)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
