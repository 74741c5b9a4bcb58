// One-sided communication at random: every epoch on windows and buffers of host memory, where MPI itself is the
// reference, and then on memory of every kind, drawn for each window, buffer and rank. All bytes of all windows and
// buffers are compared after the call that makes them the program's to read: those around and between the data too.
// clang-format off
// launch: -n 2 --gpus 2 -- 150 host
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -- 100 host
// launch: -n 4 --gpus 2 -x SWITCHYARD_PINNED_POOL=4096 -- 80 host
// launch: -n 2 --gpus 2 -- 60 allocated
// launch: -n 2 --gpus 2 -- 200 anywhere
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -- 150 anywhere
// launch: -n 4 --gpus 2 -x SWITCHYARD_PINNED_POOL=4096 -- 100 anywhere
// launch: -n 8 --gpus 4 -x VGPU_JITTER=5 -- 30 anywhere
// launch: -n 2 --gpus 2 -- 200 device
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -- 150 device
// launch: -n 4 --gpus 2 -x SWITCHYARD_PINNED_POOL=4096 -- 100 device
// launch: -n 8 --gpus 4 -x VGPU_JITTER=5 -- 30 device
// launch: -n 2 --gpus 2 -x SWITCHYARD_PEER_POOL=0 -- 60 device
// launch: -n 2 --gpus 2 -- 150 dynamic
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -- 100 dynamic
// launch: -n 4 --gpus 2 -x SWITCHYARD_PINNED_POOL=4096 -- 80 dynamic
// test-timeout: 240
// clang-format on
#include <mpi.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "../../random_seed.hpp"
#include "epoch.hpp"

namespace {

using window_test::Dice;
using window_test::Epoch;
using window_test::Windows;

int run_one(unsigned seed, Windows& windows) {
    Dice common(seed), own(seed * 7919u + static_cast<unsigned>(windows.rank) + 1);
    Epoch epoch(common, own, windows);
    epoch.run();
    return epoch.failures;
}

Windows::Where where(std::string_view word) {
    return word == "allocated" ? Windows::Where::kAllocated
           : word == "host"    ? Windows::Where::kHost
           : word == "device"  ? Windows::Where::kDevice
           : word == "dynamic" ? Windows::Where::kDynamic
                               : Windows::Where::kAnywhere;
}

}  // namespace

int main(int argc, char** argv) {
    // Open MPI 4.1's "rdma" needs process_vm_readv for MPI_Win_create, which containers forbid; "pt2pt" does not.
    if (OMPI_MAJOR_VERSION < 5)
        setenv("OMPI_MCA_osc", "^rdma,ucx", 1);
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    unsigned seed = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    const std::string memory = argc > 2 ? argv[2] : "anywhere";
    if (rank == 0)
        std::printf("%d rounds from seed %u; one alone: %s 1 %s SEED\n", rounds, seed, argv[0], memory.c_str());
    int failed = 0;
    for (int i = 0; i < rounds && failed < 5;) {
        const unsigned first = seed + static_cast<unsigned>(i);
        Dice own(first * 31u + static_cast<unsigned>(rank));
        Windows windows(own, where(memory));
        // A few epochs of all kinds follow one another on the same windows.
        for (int epochs = 0; epochs < 10 && i < rounds && failed < 5; ++epochs, ++i) {
            if (epochs > 0)
                windows.reattach();
            int here = run_one(seed + static_cast<unsigned>(i), windows), anywhere = 0;
            MPI_Allreduce(&here, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (anywhere > 0 && rank == 0)
                std::fprintf(stderr, "seed %u failed, %d epochs after %u\n", seed + static_cast<unsigned>(i), epochs,
                             first);
            failed += anywhere > 0;
        }
    }
    MPI_Finalize();
    return failed > 0 ? 1 : 0;
}
