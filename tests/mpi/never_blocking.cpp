// A program none of whose collectives blocks (but those that make communicators, and MPI_Allreduce with --use
// blocking): the first one begins the set-up of NCCL and waits for nobody, and later ones go over NCCL. Every sum is
// compared with arithmetic. Options: --use, one of the functions in main(); --rounds N. never_blocking.test reads the
// report.
#include <mpi.h>

#include <mpi-ext.h>  // needs mpi.h
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "../random_seed.hpp"
#include "gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define ALLREDUCE_INIT MPI_Allreduce_init
#else
#define ALLREDUCE_INIT MPIX_Allreduce_init
#endif

namespace {

constexpr int kCount = 20000;  // of doubles: above the threshold
constexpr useconds_t kPause = 2000;

int world_rank = 0, world_size = 0, failures = 0;
unsigned seed = 0;  // the same on all ranks, where it is given

// One MPI_Iallreduce of rank + number on every rank of a communicator.
class Sum {
  public:
    Sum(MPI_Comm comm, int number, gpu::Kind kind = gpu::Kind::kDevice)
        : comm_(comm), number_(number), memory_(kind, kCount * sizeof(double)) {
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size_);
        const std::vector<double> values(kCount, rank + number);
        const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
        memory_.write({bytes, bytes + kCount * sizeof(double)});
    }
    void begin() { MPI_Iallreduce(MPI_IN_PLACE, memory_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm_, &request_); }
    void block() { MPI_Allreduce(MPI_IN_PLACE, memory_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm_); }
    void check(const char* what) {
        MPI_Wait(&request_, MPI_STATUS_IGNORE);
        const std::vector<std::byte> bytes = memory_.read();
        const auto* found = reinterpret_cast<const double*>(bytes.data());
        const double wanted = size_ * (size_ - 1) / 2.0 + 1.0 * size_ * number_;
        for (int i = 0; i < kCount; ++i)
            if (found[i] != wanted) {
                std::fprintf(stderr, "rank %d: %s, sum %d: element %d is %g, not %g\n", world_rank, what, number_, i,
                             found[i], wanted);
                ++failures;
                return;
            }
    }

  private:
    const MPI_Comm comm_;
    const int number_;
    int size_ = 0;
    gpu::Memory memory_;
    MPI_Request request_ = MPI_REQUEST_NULL;
};

void simple(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        Sum sum(MPI_COMM_WORLD, i);
        sum.begin();
        sum.check("one after the other");
        usleep(kPause);
    }
}

// Rank 0 never has device memory.
void host(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        Sum sum(MPI_COMM_WORLD, i, world_rank == 0 ? gpu::Kind::kHost : gpu::Kind::kDevice);
        sum.begin();
        sum.check("a rank with host memory");
    }
}

// Each rank begins and lets the next one begin afterwards: they would wait for each other if a call waited.
void in_turn(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        Sum sum(MPI_COMM_WORLD, i);
        int word = 0;
        if (world_rank != 0)
            MPI_Recv(&word, 1, MPI_INT, world_rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum.begin();
        if (world_rank + 1 < world_size)
            MPI_Send(&word, 1, MPI_INT, world_rank + 1, 0, MPI_COMM_WORLD);
        sum.check("in turn");
        usleep(kPause);
    }
}

// The set-up is under way when the communicator is freed; in half of the rounds another rank is late.
void freed(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        Sum first(comm, i), second(comm, i + 1);
        if (i % 2 == 0 && world_rank == i / 2 % world_size)
            usleep(10 * kPause);
        first.begin();
        second.begin();
        if (i % 3 == 0)
            first.check("the first on a communicator that is freed");
        MPI_Comm_free(&comm);
        if (i % 3 != 0)
            first.check("the first on a freed communicator");
        second.check("the second on a freed communicator");
    }
}

// On each communicator in the same order on all ranks, among communicators in any.
void orders(int rounds) {
    std::mt19937 own(seed + static_cast<unsigned>(world_rank));
    std::vector<MPI_Comm> comms(4);
    for (std::size_t c = 0; c < comms.size(); ++c)
        MPI_Comm_split(MPI_COMM_WORLD, 0, c % 2 == 0 ? world_rank : -world_rank, &comms[c]);
    for (int i = 0; i < rounds; ++i) {
        std::vector<std::unique_ptr<Sum>> sums;
        std::vector<std::size_t> left;
        for (std::size_t c = 0; c < comms.size(); ++c)
            left.insert(left.end(), 2, c);
        for (; !left.empty(); sums.back()->begin()) {
            const std::size_t at = own() % left.size();
            sums.push_back(std::make_unique<Sum>(comms[left[at]], i));
            left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
        }
        for (const auto& sum : sums)
            sum->check("on several communicators");
        usleep(kPause);
    }
    for (MPI_Comm& comm : comms)
        MPI_Comm_free(&comm);
}

// A blocking call comes while the set-up is under way.
void blocking(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        Sum first(comm, i), second(comm, i + 1), third(comm, i + 2);
        first.begin();
        if (i % 2 == 0)
            first.check("before a call that blocks");
        second.block();
        third.begin();
        first.check("beside a call that blocks");
        second.check("a call that blocks");
        third.check("after a call that blocks");
        MPI_Comm_free(&comm);
    }
}

// Every third of the rounds on another device.
void devices(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        gpu::Driver::get().use((world_rank + (3 * i / rounds) % 2 * world_size) % gpu::Driver::get().devices);
        Sum sum(MPI_COMM_WORLD, i);
        sum.begin();
        sum.check("on changing devices");
        usleep(kPause);
    }
}

// Persistent ones, that are started in another order on every rank, beside others; their devices change.
void persistent(int rounds) {
    std::mt19937 own(seed + static_cast<unsigned>(world_rank));
    constexpr int kKinds = 3;
    std::vector<gpu::Memory> from, to;
    std::vector<MPI_Request> requests(kKinds, MPI_REQUEST_NULL);
    const std::vector<double> ones(kCount, 1.0);
    const auto* bytes = reinterpret_cast<const std::byte*>(ones.data());
    for (int k = 0; k < kKinds; ++k) {
        gpu::Driver::get().use((world_rank + k * world_size) % gpu::Driver::get().devices);
        from.emplace_back(gpu::Kind::kDevice, kCount * sizeof(double));
        to.emplace_back(gpu::Kind::kDevice, kCount * sizeof(double));
        from.back().write({bytes, bytes + kCount * sizeof(double)});
        ALLREDUCE_INIT(from.back().at(0), to.back().at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[static_cast<std::size_t>(k)]);
    }
    for (int i = 0; i < rounds; ++i) {
        gpu::Driver::get().use(world_rank);
        Sum sum(MPI_COMM_WORLD, i);
        std::vector<std::size_t> order{0, 1, 2};
        std::shuffle(order.begin(), order.end(), own);
        MPI_Start(&requests[order[0]]);
        sum.begin();
        MPI_Start(&requests[order[1]]);
        if (i % 5 == 0) {
            Sum blocks(MPI_COMM_WORLD, i);
            blocks.block();
            blocks.check("a call that blocks beside persistent ones");
        }
        MPI_Start(&requests[order[2]]);
        MPI_Waitall(kKinds, requests.data(), MPI_STATUSES_IGNORE);
        sum.check("beside persistent ones");
        for (const gpu::Memory& memory : to) {
            const std::vector<std::byte> found = memory.read();
            if (reinterpret_cast<const double*>(found.data())[kCount - 1] != world_size) {
                std::fprintf(stderr, "rank %d: a persistent sum is wrong in round %d\n", world_rank, i);
                ++failures;
            }
        }
    }
    for (MPI_Request& request : requests)
        MPI_Request_free(&request);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    int rounds = 100;
    std::string_view use = "simple";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::string_view(argv[i]) == "--rounds")
            rounds = std::atoi(argv[i + 1]);
        else
            use = argv[i + 1];
    }
    gpu::Driver::get().use(world_rank % gpu::Driver::get().devices);
    seed = random_seed();
    const struct {
        std::string_view name;
        void (*run)(int);
    } uses[] = {{"simple", simple}, {"host", host},         {"in_turn", in_turn}, {"freed", freed},
                {"orders", orders}, {"blocking", blocking}, {"devices", devices}, {"persistent", persistent}};
    for (const auto& one : uses)
        if (one.name == use)
            one.run(rounds);
    if (failures != 0)
        std::fprintf(stderr, "rank %d: SWY_RANDOM_SEED=%u\n", world_rank, seed);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
