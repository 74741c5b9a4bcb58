// Collectives that do not block on several communicators, begun in another order on every rank, with messages and
// blocking collectives beside them and waits for the whole device between: all finish, with the sums that arithmetic
// gives. Each communicator is used by a blocking collective first, which makes its NCCL communicator.
// clang-format off
// launch: -n 2 --gpus 2 -- 30
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -- 30
// launch: -n 4 --gpus 4 -- 30
// launch: -n 5 --gpus 5 -x VGPU_JITTER=9 -x SWITCHYARD_P2P_COMM=shared -- 30
// launch: -n 4 --gpus 4 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_SYNC=device -- 30
// launch: -n 4 --gpus 4 --drawn-machine -x VGPU_JITTER=4 -x SWITCHYARD_P2P_COMM=pair -- 30
// launch: -n 3 --gpus 3 -x VGPU_NCCL_ALONE=1 -- 40 --no-messages
// test-timeout: 240
// clang-format on
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "../random_seed.hpp"
#include "gpu.hpp"

namespace {

constexpr int kCount = 20000;  // of doubles: above the thresholds of collectives and messages
constexpr std::size_t kBytes = kCount * sizeof(double);

int world_rank = 0, world_size = 0, failures = 0;
bool with_messages = true;  // they take few of a GPU's cores, and run beside collectives

double first(const gpu::Memory& memory, std::size_t at) {
    const std::vector<std::byte> bytes = memory.read();
    double value = 0;
    std::memcpy(&value, &bytes[at * sizeof value], sizeof value);
    return value;
}

void fill(gpu::Memory& memory, double value) {
    const std::vector<double> values(memory.size() / sizeof(double), value);
    std::vector<std::byte> bytes(memory.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    memory.write(bytes);
}

// A communicator of some ranks of the world, and what this rank has in it.
struct Group {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 0;
    double sum = 0;  // of world ranks + 1
};

std::vector<Group> make_groups() {
    std::vector<Group> groups;
    const auto add = [&](int color, int key) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm);
        if (comm == MPI_COMM_NULL)
            return;
        Group group{comm};
        MPI_Comm_rank(comm, &group.rank);
        MPI_Comm_size(comm, &group.size);
        const double mine = world_rank + 1.0;
        MPI_Allreduce(&mine, &group.sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        if (group.size > 1)
            groups.push_back(group);
        else
            MPI_Comm_free(&comm);
    };
    add(0, world_rank);
    add(0, -world_rank);
    add(0, (world_rank * 7) % 5);
    for (int other = 1; other < world_size; ++other) {  // rings of pairs: circles of communicators
        add(world_rank == 0 || world_rank == other ? 0 : MPI_UNDEFINED, world_rank);
        add(world_rank == other - 1 || world_rank == other ? 0 : MPI_UNDEFINED, -world_rank);
    }
    return groups;
}

constexpr int kKinds = 5;

// One operation under way and what it must give.
class Operation {
  public:
    Operation(const Group& group, int kind, gpu::Kind memory)
        : group_(group),
          kind_(kind),
          root_(kind % group.size),
          send_(memory, kBytes),
          recv_(memory, kBytes * static_cast<std::size_t>(group.size)) {
        fill(send_, world_rank + 1.0);
        fill(recv_, -1.0);
    }

    void begin() {
        switch (kind_ % kKinds) {
            case 0:
                MPI_Iallreduce(send_.at(0), recv_.at(0), kCount, MPI_DOUBLE, MPI_SUM, group_.comm, &request);
                break;
            case 1:
                MPI_Iallgather(send_.at(0), kCount, MPI_DOUBLE, recv_.at(0), kCount, MPI_DOUBLE, group_.comm, &request);
                break;
            case 2:
                MPI_Ibcast(send_.at(0), kCount, MPI_DOUBLE, root_, group_.comm, &request);
                break;
            case 3:  // kernels reduce it, between two exchanges
                MPI_Iallreduce(send_.at(0), recv_.at(0), kCount, MPI_UINT64_T, MPI_BAND, group_.comm, &request);
                break;
            default:
                MPI_Igather(send_.at(0), kCount, MPI_DOUBLE, recv_.at(0), kCount, MPI_DOUBLE, root_, group_.comm,
                            &request);
        }
    }

    void check() const {
        const int kind = kind_ % kKinds;
        if (kind == 0)
            expect(first(recv_, kCount - 1), group_.sum);
        if (kind == 3)
            expect(first(recv_, kCount - 1), common_bits());
        const bool gathers = kind == 1 || (kind == 4 && root_ == group_.rank);
        for (int r = 0; r < group_.size && gathers; ++r)
            expect(first(recv_, static_cast<std::size_t>(r + 1) * kCount - 1), world_rank_of(r) + 1.0);
        if (kind == 2)
            expect(first(send_, kCount - 1), world_rank_of(root_) + 1.0);
    }

    MPI_Request request = MPI_REQUEST_NULL;

  private:
    double common_bits() const {
        std::uint64_t common = ~std::uint64_t{0};
        for (int r = 0; r < group_.size; ++r)
            common &= std::bit_cast<std::uint64_t>(world_rank_of(r) + 1.0);
        return std::bit_cast<double>(common);
    }
    int world_rank_of(int rank) const {
        MPI_Group here, world;
        MPI_Comm_group(group_.comm, &here);
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        int found = 0;
        MPI_Group_translate_ranks(here, 1, &rank, world, &found);
        MPI_Group_free(&here);
        MPI_Group_free(&world);
        return found;
    }
    void expect(double got, double wanted) const {
        if (got == wanted)
            return;
        ++failures;
        std::fprintf(stderr, "rank %d: kind %d on %d ranks, root %d: %g, not %g\n", world_rank, kind_ % kKinds,
                     group_.size, root_, got, wanted);
    }

    const Group& group_;
    const int kind_, root_;
    gpu::Memory send_, recv_;
};

struct Messages {
    gpu::Memory to{gpu::Kind::kDevice, kBytes}, from{gpu::Kind::kDevice, kBytes};
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int left = (world_rank + world_size - 1) % world_size;

    void begin() {
        fill(to, 100.0 + world_rank);
        MPI_Irecv(from.at(0), kCount, MPI_DOUBLE, left, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(to.at(0), kCount, MPI_DOUBLE, (world_rank + 1) % world_size, 7, MPI_COMM_WORLD, &requests[1]);
    }
    void end() {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (first(from, kCount - 1) != 100.0 + left) {
            ++failures;
            std::fprintf(stderr, "rank %d: wrong message\n", world_rank);
        }
    }
};

void complete(std::vector<MPI_Request>& requests, std::mt19937& own) {
    const int count = static_cast<int>(requests.size());
    int flag = 0, index = 0;
    switch (own() % 3) {
        case 0:
            break;
        case 1:
            for (int tries = 0; tries < 5; ++tries)
                MPI_Testany(count, requests.data(), &index, &flag, MPI_STATUS_IGNORE);
            break;
        default:
            for (int i = 0; i < count / 2; ++i)
                MPI_Waitany(count, requests.data(), &index, MPI_STATUS_IGNORE);
    }
    MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
}

void round(const std::vector<Group>& groups, std::mt19937& common, std::mt19937& own) {
    // On each communicator the same operations in the same order on all ranks; among communicators any order.
    const unsigned kinds = common(), mixed = common() % 8, messages = with_messages ? common() % 2 : 0,
                   blocking = common() % 2;
    struct Next {
        std::vector<std::unique_ptr<Operation>> operations;
        std::size_t begun = 0;
    };
    std::vector<Next> all(groups.size());
    std::size_t left = 0;
    for (std::size_t g = 0; g < groups.size(); ++g)
        for (unsigned i = 0; i < 1 + kinds % 2; ++i) {
            const bool host = mixed == 0 && own() % 2 == 0;
            const int kind = static_cast<int>((kinds >> 3) % 97 + i + static_cast<unsigned>(groups[g].size));
            all[g].operations.push_back(
                std::make_unique<Operation>(groups[g], kind, host ? gpu::Kind::kHost : gpu::Kind::kDevice));
            ++left;
        }
    Messages sent;
    if (messages != 0)
        sent.begin();
    std::vector<MPI_Request> requests;
    while (left > 0) {
        Next& next = all[own() % all.size()];
        if (next.begun == next.operations.size())
            continue;
        Operation& operation = *next.operations[next.begun++];
        operation.begin();
        requests.push_back(operation.request);
        --left;
        if (own() % 4 == 0)
            gpu::Driver::get().synchronize();
    }
    if (blocking != 0) {
        const gpu::Memory from(gpu::Kind::kDevice, kBytes), to(gpu::Kind::kDevice, kBytes);
        MPI_Allreduce(from.at(0), to.at(0), kCount, MPI_DOUBLE, MPI_SUM, groups.front().comm);
    }
    complete(requests, own);
    if (messages != 0)
        sent.end();
    for (const Next& next : all)
        for (const auto& operation : next.operations)
            operation->check();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    gpu::Driver::get().use(world_rank % gpu::Driver::get().devices);
    if (std::strcmp(argv[argc - 1], "--no-messages") == 0) {
        with_messages = false;
        --argc;
    }
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
    unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        std::printf("%d rounds from seed %u\n", rounds, seed);
    std::vector<Group> groups = make_groups();
    {
        gpu::Memory from(gpu::Kind::kDevice, kBytes), to(gpu::Kind::kDevice, kBytes);
        for (const Group& group : groups)
            MPI_Allreduce(from.at(0), to.at(0), kCount, MPI_DOUBLE, MPI_SUM, group.comm);
    }
    std::mt19937 common(seed), own(seed * 31 + static_cast<unsigned>(world_rank));
    int anywhere = 0;
    for (int i = 0; i < rounds && anywhere == 0; ++i) {
        round(groups, common, own);
        MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (anywhere != 0 && world_rank == 0)
            std::fprintf(stderr, "round %d failed\n", i);
    }
    for (Group& group : groups)
        MPI_Comm_free(&group.comm);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
