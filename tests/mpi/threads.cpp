// Threads that use communicators of their own, with blocking collectives and such that do not block, on GPUs that do
// one thing at a time: all finish, with the sums that arithmetic gives, whatever the threads of different processes do
// first.
// clang-format off
// launch: -n 2 --gpus 2 -x VGPU_NCCL_ALONE=1 -- 3 25
// launch: -n 3 --gpus 3 -x VGPU_NCCL_ALONE=1 -x VGPU_JITTER=6 -- 2 25
// launch: -n 4 --gpus 4 -- 3 15
// launch: -n 3 --gpus 3 --drawn-machine -x VGPU_JITTER=3 -- 2 20
// test-timeout: 180
// clang-format on
#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../random_seed.hpp"
#include "gpu.hpp"

namespace {

constexpr int kCount = 20000;
constexpr std::size_t kBytes = kCount * sizeof(double);

int rank = 0, size = 0;
std::atomic<int> failures{0};

void fill(gpu::Memory& memory, double value) {
    const std::vector<double> values(kCount, value);
    std::vector<std::byte> bytes(kBytes);
    std::memcpy(bytes.data(), values.data(), kBytes);
    memory.write(bytes);
}

double last(const gpu::Memory& memory) {
    const std::vector<std::byte> bytes = memory.read();
    double value = 0;
    std::memcpy(&value, &bytes[kBytes - sizeof value], sizeof value);
    return value;
}

// The same calls on all ranks; in which order the threads come, nobody says.
class Thread {
  public:
    Thread(MPI_Comm comm, unsigned seed) : comm_(comm), dice_(seed) {}

    void run(int rounds) {
        gpu::Driver::get().use(rank % gpu::Driver::get().devices);
        for (int i = 0; i < rounds && failures == 0; ++i)
            one(i);
    }

  private:
    void one(int round) {
        const bool blocks = dice_() % 2 == 0, more = dice_() % 2 == 0;
        gpu::Memory from(gpu::Kind::kDevice, kBytes), to(gpu::Kind::kDevice, kBytes),
            passed(gpu::Kind::kDevice, kBytes);
        const int root = static_cast<int>(dice_() % static_cast<unsigned>(size));
        fill(from, rank + round);
        fill(passed, rank == root ? round : -1.0);
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        if (more)
            MPI_Ibcast(passed.at(0), kCount, MPI_DOUBLE, root, comm_, &requests[0]);
        if (blocks)
            MPI_Allreduce(from.at(0), to.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm_);
        else
            MPI_Iallreduce(from.at(0), to.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm_, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(last(to), size * (size - 1) / 2.0 + size * round);
        if (more)
            expect(last(passed), round);
    }

    void expect(double got, double wanted) const {
        if (got == wanted)
            return;
        ++failures;
        std::fprintf(stderr, "rank %d: %g, not %g\n", rank, got, wanted);
    }

    const MPI_Comm comm_;
    std::mt19937 dice_;
};

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return 77;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int threads = argc > 1 ? std::atoi(argv[1]) : 3, rounds = argc > 2 ? std::atoi(argv[2]) : 20;
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d rounds of %d threads from seed %u\n", rounds, threads, seed);
    std::vector<MPI_Comm> communicators(static_cast<std::size_t>(threads));
    for (MPI_Comm& comm : communicators)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < communicators.size(); ++i)
        all.emplace_back([&, i] { Thread(communicators[i], seed + static_cast<unsigned>(i)).run(rounds); });
    for (std::thread& thread : all)
        thread.join();
    for (MPI_Comm& comm : communicators)
        MPI_Comm_free(&comm);
    int mine = failures, anywhere = 0;
    MPI_Allreduce(&mine, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
