// A rank that broadcasts from host memory runs far ahead of the others, some of which have device memory and are late:
// each still gets what was meant for its call.
// clang-format off
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL_THRESHOLD=64 -- 600
// launch: -n 3 --gpus 3 -x SWITCHYARD_NCCL_THRESHOLD=64 -x VGPU_JITTER=4 -- 300
// launch: -n 4 --gpus 4 -x SWITCHYARD_NCCL_THRESHOLD=64 -x SWITCHYARD_AGREE=mpi -- 100
// clang-format on

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "gpu.hpp"

namespace {

constexpr int kCount = 64;
using Values = std::array<int, kCount>;

// What call number `call` broadcasts.
Values values_of(int call) {
    Values values;
    for (int i = 0; i < kCount; ++i)
        values[static_cast<std::size_t>(i)] = call * 1000 + i;
    return values;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int calls = argc > 1 ? std::atoi(argv[1]) : 0;
    int most_ahead = 0;
    {
        const gpu::Memory device(gpu::Kind::kDevice, sizeof(Values));
        for (int call = 0; call < calls; ++call) {
            Values host = rank == 0 ? values_of(call) : Values{};
            // The rank after the first has device memory in two of three calls, the next in one.
            const bool on_device = rank != 0 && call % 3 >= (rank - 1) % 3 + 1;
            if (rank == 1 && call % 50 == 7)
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            if (rank == 1)  // how far the first rank is, by a message that it has sent before
                for (int flag = 1, is = 0; flag != 0;) {
                    MPI_Iprobe(0, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
                    if (flag != 0) {
                        MPI_Recv(&is, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                        most_ahead = std::max(most_ahead, is - call);
                    }
                }
            if (rank == 0)
                MPI_Send(&call, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Bcast(on_device ? static_cast<void*>(device.at(0)) : host.data(), kCount, MPI_INT, 0, MPI_COMM_WORLD);
            if (on_device)
                std::memcpy(host.data(), device.read().data(), sizeof host);
            if (host != values_of(call) && wrong++ < 3)
                std::fprintf(stderr, "rank %d: call %d has brought %d\n", rank, call, host[0]);
        }
        for (int is = -1; rank == 1 && is != calls - 1;) {
            MPI_Status status;
            int flag = 0;
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &flag, &status);
            if (flag == 0)
                break;
            MPI_Recv(&is, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (rank == 1)
        std::printf("the first rank was up to %d calls ahead\n", most_ahead);
    int all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
