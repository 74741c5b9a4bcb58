// A hundred duplicates of a communicator, as libraries of solvers make them, take no device memory for themselves: one
// has an NCCL communicator from its first large use, and those that NCCL finds no memory for are staged. What they had
// is the program's again when they are freed, but for the NCCL communicators that are kept for later ones.
// clang-format off
// launch: -n 2 --gpus 2 -- 100 3
// launch: -n 2 --gpus 2 -x VGPU_MEMORY=4G -x SWITCHYARD_COMM_CACHE=1 -- 100 100
// test-timeout: 180
// clang-format on
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../comm/cost.hpp"
#include "../comm/use.hpp"

namespace {

int rank = 0, failures = 0;

std::size_t free_memory() {
    MPI_Barrier(MPI_COMM_WORLD);
    return comm_test::cost().device_free;
}

void expect_taken(const char* when, std::size_t before, std::size_t now, std::size_t most) {
    if (before - now <= most)
        return;
    std::fprintf(stderr, "FAILED: rank %d: %s %zu MiB of the device are taken, not %zu at most\n", rank, when,
                 (before - now) >> 20, most >> 20);
    ++failures;
}

}  // namespace

int main(int argc, char** argv) {
    // An NCCL communicator of the virtual GPUs: 32 channels of 26 MiB.
    constexpr std::size_t kOne = 832u << 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const std::size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100;
    const std::size_t used = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 3;
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    failures += comm_test::Use(MPI_COMM_WORLD, "MPI_COMM_WORLD").just_sum();
    const std::size_t before = free_memory();
    std::vector<MPI_Comm> duplicates(count);
    for (MPI_Comm& one : duplicates)
        MPI_Comm_dup(MPI_COMM_WORLD, &one);
    expect_taken("by duplicates that are not used", before, free_memory(), 0);
    for (std::size_t i = 0; i < used; ++i)
        failures += comm_test::Use(duplicates[i], "a duplicate").just_sum();
    expect_taken("by duplicates in use", before, free_memory(), used * kOne);
    for (MPI_Comm& one : duplicates)
        MPI_Comm_free(&one);
    expect_taken("by duplicates that are freed", before, free_memory(), used * kOne);
    failures += comm_test::Use(MPI_COMM_WORLD, "MPI_COMM_WORLD").just_sum();
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
