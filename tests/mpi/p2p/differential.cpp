// Random message graphs on memory of every kind: each rank draws by itself where its ends lie, their types, the modes
// of sending, receives by name or wildcard, probes and completion calls; what has arrived, every status and every byte
// around and between the data are compared with arithmetic.
//   differential ROUNDS [SEED] [--threads N] [--without-gpus K]
// With --threads every rank runs as many rounds at once, each thread on communicators of its own. With --without-gpus
// the last K ranks have no device. A job that hangs says what each rank was doing when it is ended; with
// SWY_TEST_ALOUD=1 in the environment all say so all the time.
// clang-format off
// launch: -n 1 --gpus 2 -x SWITCHYARD_P2P_THRESHOLD=4K -x SWITCHYARD_P2P_CHUNK=8K -- 180
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_THRESHOLD=4K -x SWITCHYARD_P2P_CHUNK=8K -- 240
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_THRESHOLD=4K -- 180
// launch: -n 3 --gpus 3 -x VGPU_JITTER=6 -x SWITCHYARD_P2P_COMM=shared -x SWITCHYARD_P2P_THRESHOLD=4K -- 180
// launch: -n 4 --gpus 4 -x SWITCHYARD_P2P_PAIR_COMMS=2 -x SWITCHYARD_P2P_PAIR_COMM_AFTER=64K -x SWITCHYARD_P2P_THRESHOLD=4K -- 180
// launch: -n 5 --gpus 5 --drawn-machine -x VGPU_JITTER=8 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_THRESHOLD=4K -- 120
// launch: -n 4 --gpus 2 -x SWITCHYARD_P2P_CHUNK=8K -- 120
// launch: -n 4 --gpus 4 -- 90
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0 -x SWITCHYARD_P2P_THRESHOLD=4K -x SWITCHYARD_P2P_CHUNK=8K -- 150
// launch: -n 3 --gpus 2 -x SWITCHYARD_P2P_THRESHOLD=4K -x SWITCHYARD_P2P_CHUNK=8K -- 150 --without-gpus 1
// launch: -n 2 -- 60
// launch: -n 2 --gpus 0 -- 60
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_THRESHOLD=4K -x SWITCHYARD_P2P_CHUNK=8K -- 40 --threads 3
// launch: -n 3 --gpus 3 -x VGPU_JITTER=7 -x SWITCHYARD_P2P_COMM=pair -- 20 --threads 2
// test-timeout: 120
// clang-format on
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../random_seed.hpp"
#include "player.hpp"

namespace {

using p2p_test::Dice;
using p2p_test::Gpus;
using p2p_test::Stage;

constexpr int kMostThreads = 8;
char notes[kMostThreads][p2p_test::kNote];  // what each thread is doing

// mpirun ends a job that takes too long by this signal.
extern "C" void tell_and_end(int) {
    for (const char(&note)[p2p_test::kNote] : notes)
        if (note[0] != '\0' && write(STDERR_FILENO, note, std::strlen(note)) < 0)
            break;
    _exit(1);
}

struct Options {
    int rounds = 100, threads = 1, without_gpus = 0;
    unsigned seed = random_seed();

    Options(int argc, char** argv) {
        int plain = 0;
        for (int i = 1; i < argc; ++i) {
            const std::string word = argv[i];
            if (word == "--threads" && i + 1 < argc)
                threads = std::atoi(argv[++i]);
            else if (word == "--without-gpus" && i + 1 < argc)
                without_gpus = std::atoi(argv[++i]);
            else if (plain++ == 0)
                rounds = std::atoi(argv[i]);
            else
                seed = static_cast<unsigned>(std::atoi(argv[i]));
        }
    }
};

// Before MPI_Init: the last ranks' processes see no device.
void hide_gpus(int without) {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
    if (rank != nullptr && size != nullptr && std::atoi(rank) >= std::atoi(size) - without)
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
}

// Communicators of every shape over the processes of `over`.
std::vector<Stage> make_stages(MPI_Comm over) {
    int rank = 0, size = 0;
    MPI_Comm_rank(over, &rank);
    MPI_Comm_size(over, &size);
    MPI_Comm copy, backwards, half, ring, alone, between;
    const int around = 1;
    MPI_Comm_dup(over, &copy);
    MPI_Comm_split(over, 0, size - rank, &backwards);
    MPI_Comm_split(over, rank < size / 2 ? 0 : 1, rank, &half);
    MPI_Comm_split(over, rank, 0, &alone);
    MPI_Cart_create(over, 1, &size, &around, 1, &ring);
    std::vector<Stage> all;
    all.emplace_back("world", over, true);
    all.emplace_back("dup", copy, true);
    all.emplace_back("reversed", backwards, true);
    all.emplace_back("half", half, true);
    all.emplace_back("alone", alone, true);
    all.emplace_back("cart", ring, true);
    if (size > 1) {
        MPI_Intercomm_create(half, 0, over, rank < size / 2 ? size / 2 : 0, 1, &between);
        all.emplace_back("inter", between, rank < size / 2);
        all.emplace_back("world", over, true);
    }
    return all;
}

void free_all(const std::vector<Stage>& stages) {
    std::set<MPI_Comm> all;
    for (const Stage& stage : stages)
        if (stage.comm != MPI_COMM_WORLD)
            all.insert(stage.comm);
    for (MPI_Comm comm : all)
        MPI_Comm_free(&comm);
}

int one_round(unsigned seed, const std::vector<Stage>& stages, const Gpus& gpus, int rank, char* note) {
    Dice common(seed), own(seed * 7919u + static_cast<unsigned>(rank) + 1);
    const Stage& stage = stages[static_cast<std::size_t>(common.below(static_cast<int>(stages.size())))];
    const p2p_test::Graph graph(common, stage);
    p2p_test::Player player(own, gpus, stage, graph, seed, note);
    return player.play();
}

// The rounds of one thread; ends early after some failures. The number of seeds that failed.
int run(const Options& options, unsigned seed, std::vector<Stage>& stages, const Gpus& gpus, char* note) {
    int rank = 0, failed = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpus.take_home();
    const MPI_Comm over = stages[0].comm;
    for (Stage& stage : stages)  // with threads, waiting for a receive that fails hangs in Open MPI 4.1.4 at times
        stage.truncates = options.threads == 1;
    for (int i = 0; i < options.rounds && failed < 5; ++i) {
        const unsigned now = seed + static_cast<unsigned>(i);
        int here = one_round(now, stages, gpus, rank, note), anywhere = 0;
        std::snprintf(note, p2p_test::kNote, "seed %u, rank %d: Allreduce after the round\n", now, rank);
        MPI_Allreduce(&here, &anywhere, 1, MPI_INT, MPI_SUM, over);
        if (anywhere > 0 && rank == 0)
            std::fprintf(stderr, "seed %u failed\n", now);
        failed += anywhere > 0;
    }
    return failed;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options(argc, argv);
    int provided = 0, rank = 0;
    hide_gpus(options.without_gpus);
    // Where Open MPI 4.1.4 and 5.0.11 copy from one process to another at once (CMA), all of a message that is too long
    // is written, past the end of the receive.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    setenv("OMPI_MCA_smsc", "^cma", 1);
    MPI_Init_thread(&argc, &argv, options.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    std::signal(SIGTERM, tell_and_end);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (options.threads > kMostThreads || (options.threads > 1 && provided < MPI_THREAD_MULTIPLE)) {
        std::fprintf(stderr, "not that many threads, or none at all with this MPI\n");
        return 2;
    }
    const Gpus gpus = p2p_test::find_gpus(rank);
    unsigned seed = options.seed;
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d rounds from seed %u; one alone: %s 1 SEED\n", options.rounds, seed, argv[0]);
    std::vector<char> buffered(std::size_t{64} << 20);
    MPI_Buffer_attach(buffered.data(), static_cast<int>(buffered.size()));
    std::atomic<int> failed{0};
    // Made before the threads are: Open MPI 4.1.4 does not survive the first MPI_Cart_create in two of them at once.
    std::vector<std::vector<Stage>> stages;
    for (int i = 0; i < options.threads; ++i) {
        MPI_Comm over = MPI_COMM_WORLD;
        if (options.threads > 1)
            MPI_Comm_dup(MPI_COMM_WORLD, &over);
        stages.push_back(make_stages(over));
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < stages.size(); ++i)
        threads.emplace_back(
            [&, i] { failed += run(options, seed + 1000000 * static_cast<unsigned>(i), stages[i], gpus, notes[i]); });
    failed += run(options, seed, stages[0], gpus, notes[0]);
    for (std::thread& thread : threads)
        thread.join();
    for (const std::vector<Stage>& own : stages)
        free_all(own);
    void* back = nullptr;
    int size = 0;
    MPI_Buffer_detach(&back, &size);
    MPI_Finalize();
    return failed > 0 ? 1 : 0;
}
