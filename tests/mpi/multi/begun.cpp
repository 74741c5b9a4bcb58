// The extension's collectives on several buffers that do not block need none that does before them: they wait for
// nobody, with whatever devices, numbers of buffers and communicators, and beside an MPI_Comm_idup that is under way.
// Two threads do so at once, each on a communicator of its own, with calls that block between. Every sum is compared
// with arithmetic. Option: --threads N.
// launch: --relinked -n 3 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_JITTER=4 -- --threads 1
// launch: --relinked -n 2 --gpus 4 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_NCCL_VERSION=2.18 -- --threads 1
// launch: --relinked -n 3 --gpus 2 -x SWITCHYARD_NCCL_THRESHOLD=1000 -- --threads 1
// launch: --relinked -n 3 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_JITTER=9 -- --threads 2
#include <mpi.h>
#include <mpix_switchyard.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "../../random_seed.hpp"
#include "../gpu.hpp"

namespace {

constexpr int kDevices = 2, kCount = 1500;
int rank = 0, size = 0, gpus = 1;
std::atomic<int> failures{0};

// The sum of the buffers of all ranks, of which each has some.
class Sum {
  public:
    Sum(const std::vector<int>& numbers, int seed) : seed_(seed) {
        for (int r = 0, place = 0; r < size; ++r)
            for (int i = 0; i < numbers[static_cast<std::size_t>(r)]; ++i, ++place) {
                wanted_ += value(place);
                if (r == rank)
                    add(i, place);
            }
    }

    void begin(MPI_Comm comm, bool blocking) {
        const auto* in_place = static_cast<const void* const*>(MPI_IN_PLACE);
        const int n = static_cast<int>(list_.size());
        if (blocking)
            MPIX_Allreduce_multi(in_place, list_.data(), n, kCount, MPI_INT, MPI_SUM, comm);
        else
            MPIX_Iallreduce_multi(in_place, list_.data(), n, kCount, MPI_INT, MPI_SUM, comm, &request);
    }

    void check(const char* what) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (const auto& memory : memory_) {
            const std::vector<std::byte> bytes = memory->read();
            const int* found = reinterpret_cast<const int*>(bytes.data());
            if (found[0] == wanted_ && found[kCount - 1] == wanted_)
                continue;
            std::printf("rank %d: %s: the sum is %d, not %d\n", rank, what, found[0], wanted_);
            ++failures;
        }
    }

    MPI_Request request = MPI_REQUEST_NULL;

  private:
    int value(int place) const { return seed_ % 97 + place * place; }
    void add(int index, int place) {
        gpu::Driver::get().use((rank * kDevices + index) % gpus);
        memory_.push_back(std::make_unique<gpu::Memory>(gpu::Kind::kDevice, kCount * sizeof(int)));
        const std::vector<int> values(kCount, value(place));
        const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
        memory_.back()->write({bytes, bytes + kCount * sizeof(int)});
        list_.push_back(memory_.back()->address());
    }

    const int seed_;
    int wanted_ = 0;
    std::vector<std::unique_ptr<gpu::Memory>> memory_;
    std::vector<void*> list_;
};

const std::vector<int>& all_devices() {
    static const std::vector<int> all(static_cast<std::size_t>(size), kDevices);
    return all;
}

// The first rank begins, and lets the others begin afterwards: they would wait for each other if a call waited.
void waits_for_nobody() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < 12; ++round) {
        Sum sum(all_devices(), round);
        int word = 0;
        if (rank != 0)
            MPI_Recv(&word, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum.begin(comm, false);
        if (rank + 1 < size)
            MPI_Send(&word, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
        sum.check("calls in turn");
    }
    MPI_Comm_free(&comm);
}

void beside_a_duplication() {
    for (int round = 0; round < 8; ++round) {
        MPI_Comm comm = MPI_COMM_NULL, other = MPI_COMM_NULL;
        MPI_Request made = MPI_REQUEST_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_idup(comm, &other, &made);
        Sum first(all_devices(), round), second(all_devices(), round + 1);
        first.begin(comm, round % 2 == 0);
        second.begin(comm, round % 4 > 1);
        first.check("the first call beside MPI_Comm_idup");
        second.check("the second call beside MPI_Comm_idup");
        MPI_Wait(&made, MPI_STATUS_IGNORE);
        Sum third(all_devices(), round + 2);
        third.begin(other, false);
        third.check("a call on what MPI_Comm_idup made");
        MPI_Comm_free(&other);
        MPI_Comm_free(&comm);
    }
}

// Several under way, of changing numbers of buffers, on communicators that are freed soon.
void at_random(unsigned seed, bool with_blocking, MPI_Comm from, int rounds) {
    std::mt19937 draws(seed);
    const auto below = [&](unsigned bound) { return static_cast<int>(draws() % bound); };
    for (int round = 0; round < rounds; ++round) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(from, &comm);
        std::vector<int> numbers = all_devices();
        for (int calls = 1 + below(12); calls > 0;) {
            std::vector<std::unique_ptr<Sum>> row;
            for (int together = 1 + below(3); together > 0; --together, --calls) {
                if (below(4) == 0)
                    for (int& number : numbers)
                        number = below(kDevices + 1);
                row.push_back(std::make_unique<Sum>(numbers, below(1000)));
                row.back()->begin(comm, with_blocking && below(3) == 0);
            }
            for (const auto& sum : row)
                sum->check("a call at random");
        }
        MPI_Comm_free(&comm);
    }
}

void in_threads(unsigned seed, int number) {
    std::vector<MPI_Comm> comms(static_cast<std::size_t>(number));
    std::vector<std::thread> threads;
    for (MPI_Comm& comm : comms)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (std::size_t i = 0; i < comms.size(); ++i)
        threads.emplace_back([&, i] { at_random(seed + static_cast<unsigned>(i), true, comms[i], 6); });
    for (std::thread& thread : threads)
        thread.join();
    for (MPI_Comm& comm : comms)
        MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int threads = 1;
    for (int i = 1; i + 1 < argc; ++i)
        if (std::string_view(argv[i]) == "--threads")
            threads = std::atoi(argv[i + 1]);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("SWY_RANDOM_SEED=%u\n", seed);
    gpus = std::atoi(std::getenv("VGPU_COUNT"));
    if (threads > 1 && provided == MPI_THREAD_MULTIPLE) {
        in_threads(seed, threads);
    } else {
        waits_for_nobody();
        beside_a_duplication();
        at_random(seed, false, MPI_COMM_WORLD, 10);
        at_random(seed + 1, true, MPI_COMM_WORLD, 10);
    }
    int mine = failures, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
