// NCCL is told the node's RDMA devices before it is loaded, on a machine with some that are for the GPUs and one that
// is not, where nobody has told it and SWITCHYARD_NICS lets us. The argument is what it must be told, or "nothing".
// clang-format off
// launch: -n 2 --gpus 2 -- =mlx5_0,mlx5_1
// launch: -n 2 --gpus 2 -x SWITCHYARD_NICS=all -- nothing
// launch: -n 2 --gpus 2 -x NCCL_IB_HCA=mlx5_2 -- mlx5_2
// test-timeout: 60
// clang-format on

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu.hpp"

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    // After MPI_Init: Open MPI would take the machine in the file for its own.
    const char* source = std::getenv("SWY_SRCDIR");
    setenv("HWLOC_XMLFILE",
           (std::string(source != nullptr ? source : ".") + "/tests/topology/storage_nics.xml").c_str(), 1);
    setenv("NCCL_CONF_FILE", "/dev/null", 1);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(rank);
    constexpr int kCount = 1 << 18;
    void* memory = driver.allocate(gpu::Kind::kDevice, kCount * sizeof(int));
    MPI_Allreduce(MPI_IN_PLACE, memory, kCount, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    const char* value = std::getenv("NCCL_IB_HCA");
    const std::string told = value != nullptr ? value : "nothing";
    if (told != argv[1])
        std::fprintf(stderr, "nics: rank %d: NCCL was told %s, not %s\n", rank, told.c_str(), argv[1]);
    driver.release(gpu::Kind::kDevice, memory);
    MPI_Finalize();
    return told == argv[1] ? 0 : 1;
}
