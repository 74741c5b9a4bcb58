// Every rank exchanges messages of device memory with every other one at once, beside a collective, and is outside MPI
// at odd times: more NCCL operations want to run on each GPU than it has multiprocessors or hardware queues for. What
// arrives is compared with arithmetic.
//   usage: crowded [ROUNDS] [--collective] [--synchronize]
// --collective: a non-blocking allreduce takes part; --synchronize: ranks wait for their whole GPU after the sends.
#include <mpi.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../../random_seed.hpp"
#include "../gpu.hpp"

namespace {

constexpr std::size_t kWords = 16384;
constexpr std::size_t kMessageBytes = kWords * sizeof(std::uint32_t);
constexpr int kMessages = 4;  // from each rank to each other one
int failures = 0;

std::vector<std::byte> content(int from, int to, int round) {
    std::vector<std::byte> bytes(kMessages * kWords * sizeof(std::uint32_t));
    for (std::size_t i = 0; i < kMessages * kWords; ++i) {
        const std::uint32_t value = static_cast<std::uint32_t>(from) << 24 ^ static_cast<std::uint32_t>(to) << 16 ^
                                    static_cast<std::uint32_t>(round) << 8 ^
                                    static_cast<std::uint32_t>(i * 2654435761u);
        std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
    return bytes;
}

void expect(bool right, const char* what, int rank, int round) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: rank %d, round %d: %s\n", rank, round, what);
    ++failures;
}

struct Options {
    int rounds = 20;
    bool collective = false, synchronize = false;
};

class Round {
  public:
    Round(const Options& options, int rank, int size, int number, std::mt19937& random)
        : options_(options), rank_(rank), size_(size), number_(number), random_(random) {}

    void run() {
        const std::vector<std::int32_t> ones(kWords, rank_ + number_);
        gpu::Memory sum(gpu::Kind::kDevice, std::vector<std::byte>(kWords * sizeof(std::int32_t)));
        sum.write(bytes_of(ones));
        for (int peer = 0; peer < size_; ++peer) {
            out_.emplace_back(gpu::Kind::kDevice, content(rank_, peer, number_));
            in_.emplace_back(gpu::Kind::kDevice, kMessages * kMessageBytes);
        }
        std::vector<MPI_Request> requests;
        for (int step = 1; step < size_; ++step) {
            const int peer = (rank_ + step) % size_;
            for (int tag = 0; tag < kMessages; ++tag)
                MPI_Irecv(in_[at(peer)].at(at(tag) * kMessageBytes), kWords, MPI_UINT32_T, peer, tag, MPI_COMM_WORLD,
                          &requests.emplace_back());
        }
        pause();
        // Each rank begins with another one, so that no order of launches is everybody's.
        const int first = static_cast<int>(random_() % static_cast<unsigned>(size_));
        for (int tag = 0; tag < kMessages; ++tag)
            for (int step = 0; step < size_; ++step)
                if (const int peer = (first + step) % size_; peer != rank_)
                    MPI_Isend(out_[at(peer)].at(at(tag) * kMessageBytes), kWords, MPI_UINT32_T, peer, tag,
                              MPI_COMM_WORLD, &requests.emplace_back());
        if (options_.collective)
            MPI_Iallreduce(MPI_IN_PLACE, sum.address(), kWords, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD,
                           &requests.emplace_back());
        for (unsigned i = random_() % 4; i > 0; --i) {
            pause();
            step_a_few_times(requests);
        }
        if (options_.synchronize)
            gpu::Driver::get().synchronize();
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_)
                expect(in_[at(peer)].read() == content(peer, rank_, number_), "messages", rank_, number_);
        const std::vector<std::int32_t> all(kWords, size_ * (size_ - 1) / 2 + size_ * number_);
        if (options_.collective)
            expect(sum.read() == bytes_of(all), "the sum", rank_, number_);
    }

  private:
    static std::size_t at(int index) { return static_cast<std::size_t>(index); }
    static std::vector<std::byte> bytes_of(const std::vector<std::int32_t>& values) {
        std::vector<std::byte> bytes(values.size() * sizeof(std::int32_t));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    }
    void pause() { usleep(random_() % 4000); }
    void step_a_few_times(std::vector<MPI_Request>& requests) {
        for (unsigned i = random_() % 20; i > 0; --i) {
            int done = 0;
            MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
        }
    }

    const Options& options_;
    const int rank_, size_, number_;
    std::mt19937& random_;
    std::vector<gpu::Memory> out_, in_;
};

}  // namespace

int main(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--collective")
            options.collective = true;
        else if (word == "--synchronize")
            options.synchronize = true;
        else
            options.rounds = std::atoi(word.c_str());
    }
    int rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("seed %u\n", seed), std::fflush(stdout);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    std::mt19937 random(seed + static_cast<unsigned>(rank));
    {
        // After a blocking collective the communicator has an NCCL communicator.
        gpu::Memory first(gpu::Kind::kDevice, std::vector<std::byte>(kWords * sizeof(std::int32_t)));
        MPI_Allreduce(MPI_IN_PLACE, first.address(), kWords, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
    }
    for (int round = 0; round < options.rounds; ++round)
        Round(options, rank, size, round, random).run();
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
