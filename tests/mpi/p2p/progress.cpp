// A large message gets through while one of its ends waits in any other call of MPI: rank 0 `Isend; X; Wait` and rank 1
// `Recv; X`, and rank 0 `Send; X` and rank 1 `Irecv; X; Wait`, for every X of the tables. Each row is named before it
// starts, so that the last line of a job that hangs tells where.
//   progress [--threads] [--without-gpus] [--host] [--stepped] [NAME]     NAME: the rows whose names contain it
// With --threads every rank does both at once in two threads. With --without-gpus the last rank has no device. With
// --host all is host memory, which shows that the rows themselves are right. With --stepped MPI's progress does not
// call the engine (hidden_progress.test), and the one call is left out that cannot step it. The last row is
// MPI_Finalize, with a message whose request has been freed.
// launch: -n 2 --gpus 2
// launch: -n 3 --gpus 3 -x SWITCHYARD_P2P_COMM=pair
// launch: -n 3 --gpus 3 -x SWITCHYARD_P2P_COMM=shared -x VGPU_JITTER=3
// launch: -n 3 --gpus 2 -- --without-gpus
// launch: -n 3 --gpus 1
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL=0 -x SWITCHYARD_P2P_CHUNK=16K
// launch: -n 3 --gpus 3 -- --threads
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -- --threads
// launch: -n 3 --gpus 3 --mca osc ^rdma -- Win_
// test-timeout: 150
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "../pml.hpp"
#include "buffer.hpp"
#include "progress.hpp"

namespace {

using gpu::Kind;
using progress_test::Row;
using progress_test::Scene;

constexpr std::size_t kPayload = 300001;
constexpr int kTag = 3;
std::atomic<int> failures{0};
std::atomic<int> rows_done{0};

// The two ends' memory; at least one is device memory.
struct Ends {
    Kind from, to;
};
constexpr Ends kEnds[] = {{Kind::kDevice, Kind::kDevice}, {Kind::kDevice, Kind::kHost}, {Kind::kHost, Kind::kDevice}};
constexpr Ends kHostEnds[] = {{Kind::kHost, Kind::kHost}};

// Lets the peer get into the call that it is to wait in.
void let_the_peer_wait() {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

void expect(const gpu::Memory& memory, const std::vector<std::byte>& data, const Row& row, const char* how) {
    if (memory.read() == data)
        return;
    std::fprintf(stderr, "%s, %s: wrong data in %s memory\n", row.name, how, gpu::name(memory.kind()));
    ++failures;
}

// Rank 0 waits in the call while its message is to be taken.
void sender_waits(const Row& row, Scene& scene, const Ends& ends, std::uint64_t seed) {
    const std::vector<std::byte> data = p2p_test::noise(seed, kPayload);
    if (scene.rank == 0) {
        const gpu::Memory memory(ends.from, data);
        MPI_Request request;
        MPI_Isend(memory.at(0), kPayload, MPI_BYTE, 1, kTag, scene.comm, &request);
        row.act(scene);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (scene.rank == 1) {
        const gpu::Memory memory(ends.to, kPayload);
        let_the_peer_wait();
        MPI_Recv(memory.at(0), kPayload, MPI_BYTE, 0, kTag, scene.comm, MPI_STATUS_IGNORE);
        expect(memory, data, row, "Recv");
        row.act(scene);
    } else {
        row.act(scene);
    }
}

// Rank 1 waits in the call while its message is to come.
void receiver_waits(const Row& row, Scene& scene, const Ends& ends, std::uint64_t seed) {
    const std::vector<std::byte> data = p2p_test::noise(seed, kPayload);
    if (scene.rank == 0) {
        const gpu::Memory memory(ends.from, data);
        let_the_peer_wait();
        MPI_Send(memory.at(0), kPayload, MPI_BYTE, 1, kTag, scene.comm);
        row.act(scene);
    } else if (scene.rank == 1) {
        const gpu::Memory memory(ends.to, kPayload);
        MPI_Request request;
        MPI_Irecv(memory.at(0), kPayload, MPI_BYTE, 0, kTag, scene.comm, &request);
        row.act(scene);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(memory, data, row, "Irecv");
    } else {
        row.act(scene);
    }
}

struct Options {
    bool threads = false, without_gpus = false, host = false, stepped = false;
    std::string name;
    Options(int argc, char** argv) {
        for (int i = 1; i < argc; ++i)
            if (std::strcmp(argv[i], "--threads") == 0)
                threads = true;
            else if (std::strcmp(argv[i], "--without-gpus") == 0)
                without_gpus = true;
            else if (std::strcmp(argv[i], "--host") == 0)
                host = true;
            else if (std::strcmp(argv[i], "--stepped") == 0)
                stepped = true;
            else
                name = argv[i];
    }
};

// Open MPI 4.1.4 over UCX or libfabric hangs in these two calls or soon after them, with host memory and no Switchyard
// too: rank 0 waits in MPI_File_close's barrier, from which the others have returned.
bool hangs_in_mpi_alone(const Row& row) {
    const std::string name = row.name;
    return (mpi_test::over("ucx") || mpi_test::over("cm")) && (name == "File_set_size" || name == "File_preallocate");
}

bool wanted(const Row& row, const Options& options) {
    return (row.with_threads || !options.threads) && std::string(row.name).find(options.name) != std::string::npos &&
           !hangs_in_mpi_alone(row) && !(options.stepped && std::strcmp(row.name, "Buffer_detach") == 0);
}

// All rows on one communicator, with one side waiting.
void all_rows(const Options& options, MPI_Comm comm, int waiter, const p2p_test::Gpus& gpus) {
    std::uint64_t seed = 1;
    gpus.take_home();
    for (const auto rows : {progress_test::collective_rows(), progress_test::communicator_rows(),
                            progress_test::message_rows(), progress_test::window_rows(), progress_test::file_rows()})
        for (const Row& row : rows) {
            if (!wanted(row, options))
                continue;
            for (const Ends& ends : options.host ? std::span<const Ends>(kHostEnds) : std::span<const Ends>(kEnds)) {
                Scene scene;
                scene.comm = comm;
                MPI_Comm_rank(comm, &scene.rank);
                MPI_Comm_size(comm, &scene.size);
                scene.waiter = waiter;
                scene.other = 1 - waiter;
                scene.device_here = gpus.devices > 0;
                scene.path = "swy-progress-" + std::to_string(getppid()) + "-" + std::to_string(waiter);
                if (scene.rank == 0) {
                    std::printf("%s waits in %s: %s to %s\n", waiter == 0 ? "the sender" : "the receiver", row.name,
                                gpu::name(ends.from), gpu::name(ends.to));
                    std::fflush(stdout);
                }
                if (row.prepare != nullptr)
                    row.prepare(scene);
                (waiter == 0 ? sender_waits : receiver_waits)(row, scene, ends, ++seed);
                if (row.clean_up != nullptr)
                    row.clean_up(scene);
                ++rows_done;
            }
        }
}

// Open MPI 4.1.4 loads what it needs for topologies in the first call that makes one, without a lock: two threads that
// make their first at once crash in mca_base_framework_open, with host memory alone too.
void load_topologies(int size) {
    const int around = 1;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &around, 0, &ring);
    MPI_Comm_free(&ring);
}

// Tells whether the library has asked for opal_progress_register and been told that there is none (hide_progress.c).
bool is_hidden() {
    const auto* asked = static_cast<const int*>(dlsym(RTLD_DEFAULT, "progress_questions"));
    return asked != nullptr && *asked > 0;
}

// The sender has nothing left to wait with (MPI 4.0 section 11.2.2).
void leave_with_a_message_under_way(int rank) {
    static const std::vector<std::byte> data = p2p_test::noise(99, kPayload);
    static const Row row{"MPI_Finalize", nullptr};
    if (rank == 0) {
        std::printf("the sender waits in MPI_Finalize\n");
        std::fflush(stdout);
        static const gpu::Memory memory(Kind::kDevice, data);  // lives longer than the message
        MPI_Request request;
        MPI_Isend(memory.at(0), kPayload, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        const gpu::Memory memory(Kind::kDevice, kPayload);
        let_the_peer_wait();
        MPI_Recv(memory.at(0), kPayload, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(memory, data, row, "Recv");
    }
}

}  // namespace

int main(int argc, char** argv) {
    const Options options(argc, argv);
    const char* local = std::getenv("OMPI_COMM_WORLD_RANK");
    const char* of = std::getenv("OMPI_COMM_WORLD_SIZE");
    if (options.without_gpus && local != nullptr && of != nullptr && std::atoi(local) == std::atoi(of) - 1)
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
    int provided = 0, rank = 0, size = 0;
    MPI_Init_thread(&argc, &argv, options.threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const p2p_test::Gpus gpus = p2p_test::find_gpus(rank);
    if (options.stepped && !is_hidden()) {
        std::fprintf(stderr, "opal_progress_register is not hidden\n");
        return 2;
    }
    if (size < 2 || (!options.host && rank < 2 && gpus.devices == 0) ||
        (options.threads && provided < MPI_THREAD_MULTIPLE)) {
        std::fprintf(stderr, "needs two ranks with GPUs, and threads when asked for\n");
        return 2;
    }
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (options.threads) {
        load_topologies(size);
        std::thread second([&] { all_rows(options, copy, 1, gpus); });
        all_rows(options, MPI_COMM_WORLD, 0, gpus);
        second.join();
    } else {
        all_rows(options, MPI_COMM_WORLD, 0, gpus);
        all_rows(options, copy, 1, gpus);
    }
    MPI_Comm_free(&copy);
    if (rows_done == 0) {
        std::fprintf(stderr, "no row of that name\n");
        ++failures;
    }
    if (!options.host)
        leave_with_a_message_under_way(rank);
    MPI_Finalize();
    if (rank == 0)
        std::printf("%d rows\n", rows_done.load());
    return failures == 0 ? 0 : 1;
}
