// What a communicator costs that uses NCCL: the time of its first large collective, and the device memory that is gone
// afterwards, of all ranks of that device together.
//   communicators [COUNT]
// Prints "communicator N MILLISECONDS MEGABYTES" for each of COUNT duplicates of MPI_COMM_WORLD (default: 6), on rank
// 0. Exit 1 where a sum is wrong. Run by checks.py.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

constexpr int kCount = 1 << 20;

std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    gpu::Driver& driver = gpu::Driver::get();
    gpu::Driver::check("cuMemGetInfo", driver.call<int(std::size_t*, std::size_t*)>("cuMemGetInfo_v2")(&free, &total));
    return free;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(rank % driver.devices);
    {
        std::vector<std::byte> ones(kCount * sizeof(float)), sums(ones.size());
        const std::vector<float> one(kCount, 1.0F), sum(kCount, static_cast<float>(size));
        std::memcpy(ones.data(), one.data(), ones.size());
        std::memcpy(sums.data(), sum.data(), sums.size());
        const gpu::Memory from(gpu::Kind::kDevice, ones), to(gpu::Kind::kDevice, ones.size());
        std::vector<MPI_Comm> made(argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 6, MPI_COMM_NULL);
        for (std::size_t i = 0; i < made.size(); ++i) {
            MPI_Comm_dup(MPI_COMM_WORLD, &made[i]);
            MPI_Barrier(MPI_COMM_WORLD);
            const std::size_t before = free_bytes();
            const double start = MPI_Wtime();
            MPI_Allreduce(from.address(), to.address(), kCount, MPI_FLOAT, MPI_SUM, made[i]);
            const double took = MPI_Wtime() - start;
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0)
                std::printf("communicator %zu %.1f %.0f\n", i + 1, took * 1e3,
                            (static_cast<double>(before) - static_cast<double>(free_bytes())) / (1 << 20));
            MPI_Barrier(MPI_COMM_WORLD);
            wrong += to.read() != sums;
        }
        for (MPI_Comm& comm : made)
            MPI_Comm_free(&comm);
    }
    MPI_Finalize();
    return wrong != 0;
}
