// Intercommunicators of one rank and the rest that are freed while collectives on them are under way, persistent ones
// among them: MPI completes these all the same (MPI 4.0 section 7.4.3). Every sum is compared with arithmetic.
// Ranks have GPUs of their own: what is staged on the program's communicator Open MPI 4.1.4 does not complete then, on
// intracommunicators either. Argument: rounds.
// clang-format off
// launch: -n 2 --gpus 2 -- 20
// launch: -n 3 --gpus 3 -x SWITCHYARD_EAGER=1 -- 20
// launch: -n 4 --gpus 4 -x VGPU_JITTER=3 -- 20
// clang-format on
#include <mpi.h>

#include <mpi-ext.h>  // needs mpi.h

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define ALLREDUCE_INIT MPI_Allreduce_init
#else
#define ALLREDUCE_INIT MPIX_Allreduce_init
#endif

namespace {

constexpr int kCount = 100000;
int rank = 0, size = 0;

// Rank 0 on one side, all others on the other.
MPI_Comm between() {
    MPI_Comm side = MPI_COMM_NULL, made = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, rank, &side);
    MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 3, &made);
    MPI_Comm_free(&side);
    return made;
}

// A large sum of what the other side has.
class Sum {
  public:
    void begin(MPI_Comm comm) { MPI_Iallreduce(from_.at(0), to_.at(0), kCount, MPI_INT, MPI_SUM, comm, &request_); }
    void make(MPI_Comm comm) {
        ALLREDUCE_INIT(from_.at(0), to_.at(0), kCount, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request_);
    }
    void start() { MPI_Start(&request_); }
    void wait() { MPI_Wait(&request_, MPI_STATUS_IGNORE); }
    void free() { MPI_Request_free(&request_); }

    int failures(int round) const {
        const int wanted = rank == 0 ? size * (size + 1) / 2 - 1 : 1;
        std::vector<int> found(kCount);
        std::memcpy(found.data(), to_.read().data(), kCount * sizeof(int));
        for (const int one : found)
            if (one != wanted) {
                std::fprintf(stderr, "rank %d, round %d: %d, not %d\n", rank, round, one, wanted);
                return 1;
            }
        return 0;
    }

  private:
    static std::vector<std::byte> all_of(int value) {
        const std::vector<int> values(kCount, value);
        std::vector<std::byte> bytes(kCount * sizeof(int));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    }
    gpu::Memory from_{gpu::Kind::kDevice, all_of(rank + 1)}, to_{gpu::Kind::kDevice, all_of(-1)};
    MPI_Request request_ = MPI_REQUEST_NULL;
};

int run(int round) {
    Sum first, second, persistent;
    MPI_Comm comm = between();
    persistent.make(comm);
    for (int earlier = round % 3; earlier > 0; --earlier) {
        persistent.start();
        persistent.wait();
    }
    first.begin(comm);
    persistent.start();
    second.begin(comm);
    MPI_Comm_free(&comm);
    second.wait();
    first.wait();
    persistent.wait();
    persistent.free();
    return first.failures(round) + second.failures(round) + persistent.failures(round);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
    int failures = 0;
    for (int round = 0; round < rounds; ++round)
        failures += run(round);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
