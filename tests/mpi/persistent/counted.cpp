// Some persistent collectives on device memory, each started a number of times, for counted.test. Nothing else has used
// the communicator before they are made. Each rank starts them in an order of its own.
#include <mpi.h>

#include <mpi-ext.h>  // needs mpi.h

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "../gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#define INIT(name) MPIX_##name##_init
#endif

int main(int argc, char** argv) {
    constexpr int kCount = 32768, kRanks = 2;
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int starts = argc > 1 ? std::atoi(argv[1]) : 1;
    {
        constexpr std::size_t kBytes = kCount * sizeof(double);
        const gpu::Memory from(gpu::Kind::kDevice, kBytes * kRanks);
        std::vector<gpu::Memory> to;
        for (int i = 0; i < 6; ++i)
            to.emplace_back(gpu::Kind::kDevice, kBytes * kRanks);
        std::vector<MPI_Request> requests(6);
        INIT(Allreduce)
        (from.at(0), to[0].at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        INIT(Bcast)(to[1].at(0), kCount, MPI_DOUBLE, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        INIT(Allgather)
        (from.at(0), kCount, MPI_DOUBLE, to[2].at(0), kCount, MPI_DOUBLE, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
        INIT(Alltoall)
        (from.at(0), kCount, MPI_DOUBLE, to[3].at(0), kCount, MPI_DOUBLE, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
        INIT(Reduce_scatter_block)
        (from.at(0), to[4].at(0), kCount, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[4]);
        MPI_Comm pair = MPI_COMM_NULL;  // of neighbours
        const int other = 1 - rank;
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, MPI_UNWEIGHTED, 1, &other, MPI_UNWEIGHTED,
                                       MPI_INFO_NULL, 0, &pair);
        const int count = kCount, displacement = 0;
        INIT(Neighbor_alltoallv)
        (from.at(0), &count, &displacement, MPI_DOUBLE, to[5].at(0), &count, &displacement, MPI_DOUBLE, pair,
         MPI_INFO_NULL, &requests[5]);
        if (rank == 1)
            std::reverse(requests.begin(), requests.end());
        for (int i = 0; i < 2 + starts; ++i) {  // two to warm up
            MPI_Startall(6, requests.data());
            MPI_Waitall(6, requests.data(), MPI_STATUSES_IGNORE);
            std::rotate(requests.begin(), requests.begin() + 1, requests.end());
        }
        for (MPI_Request& request : requests)
            MPI_Request_free(&request);
        MPI_Comm_free(&pair);
    }
    MPI_Finalize();
    return 0;
}
