// Every blocking call, at random: on memory of every kind, drawn for each buffer and rank, and on host memory, where
// MPI itself is the reference. All bytes of all buffers are compared, those around and between the data too; return
// codes and statuses as well.
// clang-format off
// launch: -n 1 --gpus 1 -- 300
// launch: -n 2 --gpus 2 -- 900
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -- 500
// launch: -n 4 --gpus 2 -- 600
// launch: -n 4 --gpus 4 -x SWITCHYARD_NCCL=0 -- 500
// launch: -n 3 --gpus 3 -x SWITCHYARD_NCCL_THRESHOLD=1 -- 300
// launch: -n 4 --gpus 4 -x SWITCHYARD_NCCL_THRESHOLD=1 -x VGPU_JITTER=3 -- 300 --plain
// launch: -n 5 --gpus 5 -x SWITCHYARD_NCCL_THRESHOLD=512 -- 200 --plain
// launch: -n 2 --gpus 2 -x SWITCHYARD_PINNED_POOL=4096 -x SWITCHYARD_SYNC=none -- 400
// test-timeout: 240
// clang-format on
#include <mpi.h>

#include <cstdlib>
#include <string_view>

#include "../../random_seed.hpp"
#include "round.hpp"

namespace {

using staged_test::Communicator;
using staged_test::Dice;
using staged_test::Round;

int run_one(unsigned seed, const std::vector<Communicator>& all, int world_rank) {
    Dice common(seed), own(seed * 7919u + static_cast<unsigned>(world_rank) + 1);
    const Communicator& chosen = all[static_cast<std::size_t>(common.below(static_cast<int>(all.size())))];
    Round round = round_on(chosen, common, own);
    switch (common.below(round.inter ? 3 : 9)) {
        case 0:
            one_rooted(round);
            break;
        case 1:
            one_all(round);
            break;
        case 2:
            one_reduction(round);
            break;
        case 3:
        case 4:
            one_message(round);
            break;
        case 5:
            one_packing(round);
            break;
        case 6:
            one_scattered(round);
            break;
        default:
            one_neighbourhood(round);
    }
    return round.failures;
}

}  // namespace

int main(int argc, char** argv) {
    // Where Open MPI 4.1.4 and 5.0.11 copy from one process to another at once (CMA), all of a message that is too long
    // is written, past the end of the receive: on host memory too, from 4 KiB up. So neither would be a reference.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    setenv("OMPI_MCA_smsc", "^cma", 1);
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % staged_test::devices());
    staged_test::plain_only = argc > 1 && std::string_view(argv[argc - 1]) == "--plain";
    argc -= staged_test::plain_only ? 1 : 0;
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d rounds from seed %u; one alone: %s 1 SEED\n", rounds, seed, argv[0]);
    std::vector<Communicator> all = staged_test::communicators(rank, size);
    int failed = 0;
    for (int i = 0; i < rounds && failed < 5; ++i) {
        int here = run_one(seed + static_cast<unsigned>(i), all, rank), anywhere = 0;
        MPI_Allreduce(&here, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (anywhere > 0 && rank == 0)
            std::fprintf(stderr, "seed %u failed\n", seed + static_cast<unsigned>(i));
        failed += anywhere > 0;
    }
    staged_test::release(all);
    MPI_Finalize();
    return failed > 0 ? 1 : 0;
}
