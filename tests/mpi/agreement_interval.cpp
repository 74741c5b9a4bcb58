// Collectives whose size no rank knows, in phases: many calls on host memory, then some in which each rank passes
// device memory from a call of its own on, and again. Every element is compared with arithmetic.
// agreement_interval.test reads the report and counts messages. Options: --call alltoallv, in_place, gatherv or
// neighbor; --host N, --device N: calls a phase;
// --rounds N.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "../random_seed.hpp"
#include "gpu.hpp"

namespace {

constexpr int kSmall = 2;      // ints for each rank in a host phase
constexpr int kLarge = 30000;  // in a device phase: above the threshold

int world_rank = 0, world_size = 0, failures = 0;

int value(int number, int from, int to, int at) {
    return number * 1000 + from * 100 + to * 10 + at % 7;
}

void call(std::string_view name, MPI_Comm ring, int number, int count, gpu::Kind kind) {
    const std::size_t ranks = static_cast<std::size_t>(world_size);
    const bool gathers = name == "gatherv", in_place = name == "in_place";
    const int root = number % world_size;
    // What this rank sends to each, and what it receives of each; a little less with each rank.
    std::vector<int> send_counts, receive_counts, send_at, receive_at;
    for (int other = 0; other < world_size; ++other) {
        send_counts.push_back(gathers && other != root ? 0 : count - world_rank % 2);
        receive_counts.push_back(gathers && world_rank != root ? 0
                                 : in_place                    ? count - (world_rank + other) % 2
                                                               : count - other % 2);
        send_at.push_back(other * count);
        receive_at.push_back(other * count);
    }
    std::vector<int> content(ranks * count);
    for (int to = 0; to < world_size; ++to)
        for (int at = 0; at < count; ++at)
            content[static_cast<std::size_t>(to * count + at)] = value(number, world_rank, to, at);
    const std::size_t bytes = content.size() * sizeof(int);
    gpu::Memory sends(kind, bytes), receives(kind, bytes);
    const auto* first = reinterpret_cast<const std::byte*>(content.data());
    sends.write({first, first + bytes});
    receives.write(in_place ? std::vector<std::byte>(first, first + bytes)
                            : std::vector<std::byte>(bytes, std::byte{0x5a}));
    // Where MPI ignores a type it is none: the root's elsewhere, the sent one in place (MPI 4.0 sections 6.5 and 6.8).
    const auto no_type = reinterpret_cast<MPI_Datatype>(0x10);
    const MPI_Datatype received = world_rank == root ? MPI_INT : no_type;
    if (gathers)
        MPI_Gatherv(sends.at(sizeof(int) * static_cast<std::size_t>(send_at[root])), send_counts[root], MPI_INT,
                    receives.at(0), receive_counts.data(), receive_at.data(), received, root, MPI_COMM_WORLD);
    else if (in_place)
        MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, no_type, receives.at(0), receive_counts.data(), receive_at.data(),
                      MPI_INT, MPI_COMM_WORLD);
    else if (name == "neighbor")
        MPI_Neighbor_alltoallv(sends.at(0), send_counts.data(), send_at.data(), MPI_INT, receives.at(0),
                               receive_counts.data(), receive_at.data(), MPI_INT, ring);
    else
        MPI_Alltoallv(sends.at(0), send_counts.data(), send_at.data(), MPI_INT, receives.at(0), receive_counts.data(),
                      receive_at.data(), MPI_INT, MPI_COMM_WORLD);
    const std::vector<std::byte> result = receives.read();
    const auto* found = reinterpret_cast<const int*>(result.data());
    for (int from = 0; from < world_size; ++from)
        for (int at = 0; at < count; ++at) {
            const bool sent = at < receive_counts[static_cast<std::size_t>(from)];
            const int wanted = sent       ? value(number, from, world_rank, at)
                               : in_place ? value(number, world_rank, from, at)
                                          : 0x5a5a5a5a;
            if (found[from * count + at] != wanted) {
                std::fprintf(stderr, "rank %d, call %d: element %d of rank %d is %d, not %d\n", world_rank, number, at,
                             from, found[from * count + at], wanted);
                ++failures;
                return;
            }
        }
}

}  // namespace

int main(int argc, char** argv) {
    std::string_view name = "alltoallv";
    int host = 0, device = 0, rounds = 1;
    MPI_Init(&argc, &argv);
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view option = argv[i];
        if (option == "--call")
            name = argv[i + 1];
        else
            (option == "--host" ? host : option == "--device" ? device : rounds) = std::atoi(argv[i + 1]);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        std::printf("seed %u\n", seed);
    gpu::Driver::get().use(world_rank % gpu::Driver::get().devices);
    std::mt19937 own(seed + static_cast<unsigned>(world_rank));
    std::vector<int> all(static_cast<std::size_t>(world_size));
    std::iota(all.begin(), all.end(), 0);
    MPI_Comm everybody = MPI_COMM_NULL;  // each rank is every rank's neighbour
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, world_size, all.data(), MPI_UNWEIGHTED, world_size, all.data(),
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &everybody);
    int number = 0;
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < host; ++i)
            call(name, everybody, number++, kSmall, gpu::Kind::kHost);
        const int mine = static_cast<int>(own() % 4);
        for (int i = 0; i < device; ++i)
            call(name, everybody, number++, kLarge, i < mine ? gpu::Kind::kHost : gpu::Kind::kDevice);
    }
    MPI_Comm_free(&everybody);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
