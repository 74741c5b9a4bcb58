// Persistent collectives at random: made in one order on all ranks and started in another on each, on several
// communicators, with calls that do not block, a blocking one and messages between the starts; on memory of every kind,
// of contiguous and other types, in place, with operators of MPI's and of the program's. After every round each buffer
// is compared, byte by byte, with what MPI's blocking calls do on host memory.
// clang-format off
// launch: -n 2 --gpus 2 -- 40
// launch: -n 3 --gpus 3 -x VGPU_JITTER=5 -- 30
// launch: -n 4 --gpus 4 -x VGPU_JITTER=11 -x SWITCHYARD_P2P_COMM=shared -- 25
// launch: -n 5 --gpus 5 -x VGPU_JITTER=3 -- 15
// launch: -n 4 --gpus 2 -- 15
// launch: -n 3 --gpus 3 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_SYNC=device -- 20 --all-device
// launch: -n 3 --gpus 3 -x VGPU_NCCL_ALONE=1 -- 20 --all-device --no-messages
// test-timeout: 240
// clang-format on
#include <mpi.h>
#include <unistd.h>

#include <mpi-ext.h>  // needs mpi.h

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "../../random_seed.hpp"
#include "../gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#define INIT(name) MPIX_##name##_init
#endif

namespace {

using Random = std::mt19937;

int world_rank = 0, world_size = 0, failures = 0;
bool all_device = false, with_messages = true;

int below(Random& random, int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
}

struct Group {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 0;
};

// Commutative and associative on integers, and none of MPI's.
void join(void* in, void* inout, int* count, MPI_Datatype*) {
    const auto* a = static_cast<const unsigned*>(in);
    auto* b = static_cast<unsigned*>(inout);
    for (int i = 0; i < *count; ++i)
        b[i] += a[i] + a[i] * b[i];
}
MPI_Op joined = MPI_OP_NULL;
MPI_Datatype every_second = MPI_DATATYPE_NULL;  // int of two

enum class What {
    kAllreduce,
    kAllreduceInPlace,
    kAllreduceOwn,
    kReduce,
    kBcast,
    kBcastStrided,
    kGather,
    kGatherv,
    kScatter,
    kAllgather,
    kAllgatherInPlace,
    kAlltoall,
    kAlltoallv,
    kReduceScatterBlock,
    kReduceScatter,
    kScan,
};
constexpr int kWhats = 16;

// Makes the call, or the request of its persistent form.
#define CALL(name, ...) (request == nullptr ? MPI_##name(__VA_ARGS__) : INIT(name)(__VA_ARGS__, MPI_INFO_NULL, request))

struct Arguments {
    What what{};
    int count = 0, root = 0;          // of ints, of one block
    std::vector<int> counts, displs;  // of blocks of uneven size, what each rank takes
    std::vector<int> owns;            // what this rank takes, from each
    int ints = 0;                     // in each buffer

    int make(const Group& group, void* send, void* recv, MPI_Request* request) const {
        const MPI_Comm comm = group.comm;
        const int own = counts[static_cast<std::size_t>(group.rank)];
        switch (what) {
            case What::kAllreduce:
                return CALL(Allreduce, send, recv, count, MPI_INT, MPI_SUM, comm);
            case What::kAllreduceInPlace:
                return CALL(Allreduce, MPI_IN_PLACE, recv, count, MPI_INT, MPI_BXOR, comm);
            case What::kAllreduceOwn:
                return CALL(Allreduce, send, recv, count, MPI_INT, joined, comm);
            case What::kReduce:
                return CALL(Reduce, send, recv, count, MPI_INT, MPI_MAX, root, comm);
            case What::kBcast:
                return CALL(Bcast, recv, count, MPI_INT, root, comm);
            case What::kBcastStrided:
                return CALL(Bcast, recv, count / 2, every_second, root, comm);
            case What::kGather:
                return CALL(Gather, send, count, MPI_INT, recv, count, MPI_INT, root, comm);
            case What::kGatherv:
                return CALL(Gatherv, send, own, MPI_INT, recv, counts.data(), displs.data(), MPI_INT, root, comm);
            case What::kScatter:
                return CALL(Scatter, send, count, MPI_INT, recv, count, MPI_INT, root, comm);
            case What::kAllgather:
                return CALL(Allgather, send, count, MPI_INT, recv, count, MPI_INT, comm);
            case What::kAllgatherInPlace:
                return CALL(Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, count, MPI_INT, comm);
            case What::kAlltoall:
                return CALL(Alltoall, send, count, MPI_INT, recv, count, MPI_INT, comm);
            case What::kAlltoallv:
                return CALL(Alltoallv, send, counts.data(), displs.data(), MPI_INT, recv, owns.data(), displs.data(),
                            MPI_INT, comm);
            case What::kReduceScatterBlock:
                return CALL(Reduce_scatter_block, send, recv, count, MPI_INT, MPI_SUM, comm);
            case What::kReduceScatter:
                return CALL(Reduce_scatter, send, recv, counts.data(), MPI_INT, MPI_SUM, comm);
            case What::kScan:
                return CALL(Scan, send, recv, count, MPI_INT, MPI_SUM, comm);
        }
        return MPI_ERR_INTERN;
    }
};

Arguments draw(Random& common, const Group& group) {
    Arguments a;
    a.what = static_cast<What>(below(common, kWhats));
    a.count = below(common, 6) == 0 ? 1 + below(common, 2000) : 16384 + below(common, 12000);
    a.root = below(common, group.size);
    int at = 0, most = a.count;
    for (int r = 0; r < group.size; ++r) {
        a.counts.push_back(below(common, 5) == 0 ? 0 : 1 + below(common, a.count));
        a.displs.push_back(at);
        at += a.counts.back() + below(common, 3);
        most = std::max(most, a.counts.back());
    }
    a.owns.assign(static_cast<std::size_t>(group.size), a.counts[static_cast<std::size_t>(group.rank)]);
    if (a.what == What::kAlltoallv)
        for (int r = 0; r < group.size; ++r)
            a.displs[static_cast<std::size_t>(r)] = r * (most + 1);
    a.ints = (most + 1) * group.size + 3 * group.size;
    return a;
}

// One persistent request, its buffers, and what host MPI does with the same.
class Request {
  public:
    Request(const Group& group, const Arguments& arguments, gpu::Kind send, gpu::Kind recv)
        : group_(group), arguments_(arguments), send_(send, bytes()), recv_(recv, bytes()) {
        const int code = arguments_.make(group_, send_.at(0), recv_.at(0), &request);
        if (code != MPI_SUCCESS)
            fail("cannot be made", code);
    }
    ~Request() { MPI_Request_free(&request); }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    void fill(Random& own) {
        for (auto* content : {&sent_, &received_}) {
            content->resize(bytes());
            for (std::size_t i = 0; i + sizeof(std::uint32_t) <= bytes(); i += sizeof(std::uint32_t)) {
                const auto value = static_cast<std::uint32_t>(own());
                std::memcpy(&(*content)[i], &value, sizeof value);
            }
        }
        send_.write(sent_);
        recv_.write(received_);
    }

    void compare() {
        std::vector<std::byte> untouched = sent_;
        arguments_.make(group_, sent_.data(), received_.data(), nullptr);
        if (send_.read() != untouched)
            fail("has changed its send buffer", 0);
        const std::vector<std::byte> found = recv_.read();
        if (found != received_) {
            const auto at = std::mismatch(found.begin(), found.end(), received_.begin()).first - found.begin();
            fail("has a wrong result at byte", static_cast<int>(at));
        }
    }

    MPI_Request request = MPI_REQUEST_NULL;

  private:
    std::size_t bytes() const { return static_cast<std::size_t>(arguments_.ints) * sizeof(int); }
    void fail(const char* how, int number) const {
        ++failures;
        std::fprintf(stderr, "rank %d: collective %d, count %d, root %d, of %d ranks, %s and %s memory: %s (%d)\n",
                     world_rank, static_cast<int>(arguments_.what), arguments_.count, arguments_.root, group_.size,
                     gpu::name(send_.kind()), gpu::name(recv_.kind()), how, number);
    }

    const Group& group_;
    const Arguments arguments_;
    gpu::Memory send_, recv_;
    std::vector<std::byte> sent_, received_;
};

gpu::Kind draw_kind(Random& own, bool mixed) {
    if (!mixed)
        return gpu::Kind::kDevice;
    return gpu::kKinds[below(own, 4)];
}

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
        groups.push_back(group);
    };
    add(0, world_rank);
    add(0, -world_rank);
    for (int other = 1; other < world_size; ++other)  // pairs in a circle
        add(world_rank == other - 1 || world_rank == other ? 0 : MPI_UNDEFINED, -world_rank);
    if (world_size > 2)
        add(world_rank == 0 || world_rank == world_size - 1 ? 0 : MPI_UNDEFINED, world_rank);
    return groups;
}

// A large sum on device memory that does not block.
struct Sum {
    static constexpr int kCount = 20000;
    gpu::Memory from{gpu::Kind::kDevice, kCount * sizeof(int)}, to{gpu::Kind::kDevice, kCount * sizeof(int)};
    MPI_Request request = MPI_REQUEST_NULL;
    int size = 0;

    void begin(const Group& group) {
        const std::vector<int> ones(kCount, 1);
        std::vector<std::byte> content(kCount * sizeof(int));
        std::memcpy(content.data(), ones.data(), content.size());
        from.write(content);
        size = group.size;
        MPI_Iallreduce(from.at(0), to.at(0), kCount, MPI_INT, MPI_SUM, group.comm, &request);
    }
    void check() const {
        const std::vector<std::byte> content = to.read();
        int last = 0;
        std::memcpy(&last, &content[content.size() - sizeof last], sizeof last);
        if (last != size) {
            ++failures;
            std::fprintf(stderr, "rank %d: a sum beside them is %d, not %d\n", world_rank, last, size);
        }
    }
};

struct Message {
    gpu::Memory to{gpu::Kind::kDevice, 100000}, from{gpu::Kind::kDevice, 100000};
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    void begin() {
        MPI_Irecv(from.at(0), 100000, MPI_BYTE, (world_rank + world_size - 1) % world_size, 7, MPI_COMM_WORLD,
                  &requests[0]);
        MPI_Isend(to.at(0), 100000, MPI_BYTE, (world_rank + 1) % world_size, 7, MPI_COMM_WORLD, &requests[1]);
    }
    void end() { MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); }
};

void complete(std::vector<MPI_Request>& active, Random& own) {
    const int count = static_cast<int>(active.size());
    std::vector<int> indices(active.size());
    std::vector<MPI_Status> statuses(active.size());
    int flag = 0, index = 0, ended = 0;
    switch (below(own, 4)) {
        case 0:
            break;
        case 1:
            for (int tries = 0; tries < 5; ++tries)
                MPI_Testany(count, active.data(), &index, &flag, MPI_STATUS_IGNORE);
            break;
        case 2:
            for (int i = 0; i < count / 2; ++i)
                MPI_Waitany(count, active.data(), &index, MPI_STATUS_IGNORE);
            break;
        default:
            MPI_Waitsome(count, active.data(), &ended, indices.data(), statuses.data());
            while (!flag)
                MPI_Testall(count, active.data(), &flag, statuses.data());
    }
    MPI_Waitall(count, active.data(), MPI_STATUSES_IGNORE);
}

struct Pool {
    const Group& group;
    std::vector<std::unique_ptr<Request>> requests;
};

// Starts what all ranks start in this round, in an order of its own, one at a time or several together. Nothing waits
// before all are started but one blocking call, which waits for no start.
void round(std::vector<Pool>& pools, Random& common, Random& own) {
    const int sums = below(common, 3), blocking = below(common, 2), messages = with_messages ? below(common, 2) : 0;
    std::vector<Request*> chosen;
    for (Pool& pool : pools)
        for (const auto& request : pool.requests) {
            // Those of a pair are drawn by all ranks alike, in the order of the pools of each.
            const unsigned hash =
                static_cast<unsigned>(sums + 2 * blocking) + static_cast<unsigned>(&request - pool.requests.data());
            if (hash % 3 != 2)
                chosen.push_back(request.get());
        }
    std::vector<Sum> others(static_cast<std::size_t>(sums));
    std::size_t begun = 0;
    Message message;
    for (Request* request : chosen)
        request->fill(own);
    if (messages != 0)
        message.begin();
    std::shuffle(chosen.begin(), chosen.end(), own);
    std::vector<MPI_Request> active;
    const int blocks_after = below(own, static_cast<int>(chosen.size()) + 1);
    bool blocked = blocking == 0;
    const auto block = [&] {
        const gpu::Memory memory(gpu::Kind::kDevice, 100000);
        MPI_Bcast(memory.at(0), 100000, MPI_BYTE, 0, MPI_COMM_WORLD);
        blocked = true;
    };
    for (std::size_t at = 0; at < chosen.size();) {
        if (!blocked && static_cast<int>(at) >= blocks_after)
            block();
        const std::size_t several =
            std::min(chosen.size() - at, static_cast<std::size_t>(below(own, 3) == 0 ? 1 + below(own, 4) : 1));
        std::vector<MPI_Request> starting;
        for (std::size_t i = 0; i < several; ++i)
            starting.push_back(chosen[at + i]->request);
        if (several == 1)
            MPI_Start(&starting[0]);
        else
            MPI_Startall(static_cast<int>(several), starting.data());
        for (std::size_t i = 0; i < several; ++i) {
            chosen[at + i]->request = starting[i];
            active.push_back(starting[i]);
        }
        at += several;
        if (below(own, 3) == 0) {
            int flag = 0;
            MPI_Request_get_status(active[static_cast<std::size_t>(below(own, static_cast<int>(active.size())))], &flag,
                                   MPI_STATUS_IGNORE);
        }
        if (below(own, 8) == 0)
            gpu::Driver::get().synchronize();
        if (begun < others.size() && below(own, 3) == 0)
            others[begun++].begin(pools.front().group);
    }
    if (!blocked)
        block();
    while (begun < others.size())
        others[begun++].begin(pools.front().group);
    // Away from MPI, so that many agreements are found complete at once, and in another order on each rank.
    if (below(common, 2) == 0)
        usleep(3000);
    complete(active, own);
    for (Sum& sum : others)
        MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
    if (messages != 0)
        message.end();
    // In the order in which they were made, which is that of all ranks.
    for (const Sum& sum : others)
        sum.check();
    std::sort(chosen.begin(), chosen.end());
    for (Pool& pool : pools)
        for (const auto& request : pool.requests)
            if (std::binary_search(chosen.begin(), chosen.end(), request.get()))
                request->compare();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    gpu::Driver::get().use(world_rank % gpu::Driver::get().devices);
    std::vector<int> numbers;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        all_device |= word == "--all-device";
        with_messages &= word != "--no-messages";
        if (!word.starts_with("--"))
            numbers.push_back(std::atoi(argv[i]));
    }
    const int rounds = numbers.empty() ? 20 : numbers[0];
    unsigned seed = numbers.size() > 1 ? static_cast<unsigned>(numbers[1]) : random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        std::printf("%d rounds from seed %u\n", rounds, seed);
    MPI_Op_create(join, 1, &joined);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_second);
    MPI_Type_commit(&every_second);
    std::vector<Group> groups = make_groups();
    Random common(seed), own(seed * 31 + static_cast<unsigned>(world_rank) + 1);
    int anywhere = 0;
    for (int done = 0; done < rounds && anywhere == 0;) {
        // The pool lives for some rounds. Each communicator has dice of its own, which its ranks share.
        const unsigned pool_seed = common();
        std::vector<Pool> pools;
        for (const Group& group : groups) {
            unsigned of_group = pool_seed;
            MPI_Bcast(&of_group, 1, MPI_UNSIGNED, 0, group.comm);
            Random dice(of_group + static_cast<unsigned>(group.size));
            Pool& pool = pools.emplace_back(Pool{group, {}});
            const int requests = 2 + below(dice, 4);
            for (int i = 0; i < requests; ++i) {
                const Arguments arguments = draw(dice, group);
                const bool mixed = !all_device && below(dice, 4) == 0;
                const gpu::Kind send = draw_kind(own, mixed), recv = draw_kind(own, mixed);
                pool.requests.push_back(std::make_unique<Request>(group, arguments, send, recv));
            }
        }
        for (int i = 0; i < 5 && done < rounds && anywhere == 0; ++i, ++done) {
            round(pools, common, own);
            MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (anywhere != 0 && world_rank == 0)
                std::fprintf(stderr, "round %d failed\n", done);
        }
    }
    for (Group& group : groups)
        MPI_Comm_free(&group.comm);
    MPI_Type_free(&every_second);
    MPI_Op_free(&joined);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
