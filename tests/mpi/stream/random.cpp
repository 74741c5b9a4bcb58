// Random calls on a stream communicator, several queued before the host waits once: what they give must be what the
// same calls on host memory give, which Open MPI carries. Data comes into the buffers in the stream's order alone, just
// before each call, and is overwritten there just after. All ranks draw the same numbers.
// clang-format off
// launch: -n 2 --gpus 2 --relinked -x VGPU_JITTER=3 -- 60
// launch: -n 4 --gpus 4 --relinked -x VGPU_JITTER=5 -- 40
// launch: -n 3 --gpus 3 --drawn-machine --relinked -x VGPU_JITTER=6 -- 40
// launch: -n 3 --gpus 3 --relinked -x SWITCHYARD_DETERMINISTIC=1 -- 40
// launch: -n 2 --gpus 1 --relinked -- 30
// launch: -n 2 --gpus 2 --relinked -- 20 --no-stream
// launch: -n 1 --gpus 1 --relinked -- 20
// test-timeout: 90
// clang-format on
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>

#include "../../random_seed.hpp"
#include "queue.hpp"

namespace {

using stream_test::Bytes;
using stream_test::Queue;

int rank = 0, size = 0, failures = 0;

struct Type {
    const char* name;
    MPI_Datatype type;
    int numbers;  // of an element, and of what kind
    enum { kInt, kDouble, kShort, kPair } kind;
    bool reduces;
};

class Test {
  public:
    Test(unsigned seed, bool with_stream) : random_(seed), queue_(with_stream) {
        MPI_Datatype vector = MPI_DATATYPE_NULL;
        MPI_Type_vector(3, 2, 5, MPI_INT, &vector);
        MPI_Type_commit(&vector);
        MPI_Datatype pairs = MPI_DATATYPE_NULL;
        MPI_Type_contiguous(3, MPI_INT, &pairs);
        MPI_Type_commit(&pairs);
        types_ = {{"MPI_INT", MPI_INT, 1, Type::kInt, true},       {"MPI_DOUBLE", MPI_DOUBLE, 1, Type::kDouble, true},
                  {"MPI_SHORT", MPI_SHORT, 1, Type::kShort, true}, {"MPI_2INT", MPI_2INT, 2, Type::kPair, true},
                  {"a vector", vector, 13, Type::kInt, false},     {"three integers", pairs, 3, Type::kInt, false}};
    }
    ~Test() {
        MPI_Type_free(&types_[4].type);
        MPI_Type_free(&types_[5].type);
    }

    void round(int number) {
        const int calls = draw(1, 4);
        for (int i = 0; i < calls; ++i) {
            what_ = "round " + std::to_string(number) + ", call " + std::to_string(i);
            draw(0, 3) == 0 ? messages() : collective();
        }
        queue_.synchronize();
        for (const Check& check : checks_)
            compare(check);
        checks_.clear();
        queue_.forget();
    }

  private:
    struct Check {
        std::string what;
        const gpu::Memory* found;
        Bytes wanted;
    };

    int draw(int least, int most) {
        return static_cast<int>(random_() % static_cast<unsigned>(most - least + 1)) + least;
    }

    // Without a stream the communicator knows of no order but the host's.
    void come() {
        if (queue_.object() == MPIX_STREAM_NULL)
            queue_.synchronize();
    }

    // One for each rank is drawn, so that the ranks' numbers stay the same.
    gpu::Kind kind() {
        gpu::Kind mine = gpu::Kind::kDevice;
        for (int r = 0; r < size; ++r)
            if (const int drawn = draw(0, 9); drawn < 4 && r == rank)
                mine = gpu::kKinds[drawn];
        return mine;
    }

    static std::size_t extent(const Type& type) {
        MPI_Aint lb = 0, found = 0;
        MPI_Type_get_extent(type.type, &lb, &found);
        return static_cast<std::size_t>(found);
    }

    // Small whole numbers, whose sums and products are exact in any order.
    static Bytes content(const Type& type, std::size_t count, int seed) {
        Bytes bytes(count * extent(type));
        const auto fill = [&](auto zero) {
            using T = decltype(zero);
            for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
                const T value = static_cast<T>((i * 7 + static_cast<std::size_t>(seed) * 13) % 3 + 1);
                std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
            }
        };
        type.kind == Type::kDouble ? fill(0.0) : type.kind == Type::kShort ? fill(short{}) : fill(int{});
        return bytes;
    }

    void expect(std::string what, gpu::Memory& memory, Bytes wanted) {
        checks_.push_back({what_ + ": " + what, &queue_.take(memory), std::move(wanted)});
    }

    void compare(const Check& check) {
        const Bytes found = check.found->read();
        const auto different = std::mismatch(check.wanted.begin(), check.wanted.end(), found.begin());
        if (different.first == check.wanted.end())
            return;
        if (++failures < 5)
            std::fprintf(stderr, "rank %d of %d: %s: byte %ld of %zu is %d, not %d\n", rank, size, check.what.c_str(),
                         static_cast<long>(different.first - check.wanted.begin()), check.wanted.size(),
                         static_cast<int>(*different.second), static_cast<int>(*different.first));
    }

    void collective() {
        const int which = draw(0, 9);
        constexpr const char* kNames[] = {
            "Allreduce", "Reduce", "Reduce_scatter_block", "Scan", "Exscan", "Bcast", "Allgather", "Alltoall",
            "Gather",    "Scatter"};
        const bool reduces = which <= 4;
        const Type& type = types_[static_cast<std::size_t>(draw(0, reduces ? 3 : 5))];
        const int count = draw(0, 4) == 0 ? draw(1, 30000) : draw(0, 300), root = draw(0, size - 1);
        constexpr auto kPairs = Type::kPair;
        const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_PROD};
        const int drawn = draw(0, type.kind == Type::kDouble ? 1 : 2);
        const MPI_Op op = type.kind == kPairs ? (drawn == 0 ? MPI_MINLOC : MPI_MAXLOC) : ops[drawn];
        bool in_place = draw(0, 2) == 0 && which != 5 && which != 9;
        if ((which == 1 || which == 8) && rank != root)
            in_place = false;
        const auto ranks = static_cast<std::size_t>(size);
        const bool many_sent = which == 2 || which == 7 || which == 9, many_received = which >= 6 && which <= 8;
        const std::size_t sent = static_cast<std::size_t>(count) * (many_sent ? ranks : 1);
        const std::size_t received =
            static_cast<std::size_t>(count) * (many_received || (which == 2 && in_place) ? ranks : 1);
        Bytes send = content(type, sent, rank), recv = content(type, received, rank + 20);
        gpu::Memory& from = queue_.buffer(kind(), send);
        gpu::Memory& to = queue_.buffer(kind(), recv);
        come();
        call(which, in_place ? MPI_IN_PLACE : from.address(), to.address(), count, type.type, op, root, true);
        call(which, in_place ? MPI_IN_PLACE : send.data(), recv.data(), count, type.type, op, root, false);
        expect(std::string(kNames[which]) + " of " + std::to_string(count) + " times " + type.name +
                   (in_place ? " in place" : "") + " in " + gpu::name(to.kind()),
               to, std::move(recv));
        if (!in_place)
            expect(std::string("what ") + kNames[which] + " was given in " + gpu::name(from.kind()), from,
                   std::move(send));
        if (draw(0, 5) == 0)
            MPIX_Barrier_enqueue(queue_.comm);
    }

    void call(int which, void* from, void* to, int n, MPI_Datatype type, MPI_Op op, int root, bool enqueue) {
        const MPI_Comm comm = enqueue ? queue_.comm : MPI_COMM_WORLD;
        int code = MPI_SUCCESS;
        switch (which) {
            case 0:
                code = (enqueue ? MPIX_Allreduce_enqueue : MPI_Allreduce)(from, to, n, type, op, comm);
                break;
            case 1:
                code = (enqueue ? MPIX_Reduce_enqueue : MPI_Reduce)(from, to, n, type, op, root, comm);
                break;
            case 2:
                code = (enqueue ? MPIX_Reduce_scatter_block_enqueue : MPI_Reduce_scatter_block)(from, to, n, type, op,
                                                                                                comm);
                break;
            case 3:
                code = (enqueue ? MPIX_Scan_enqueue : MPI_Scan)(from, to, n, type, op, comm);
                break;
            case 4:
                code = (enqueue ? MPIX_Exscan_enqueue : MPI_Exscan)(from, to, n, type, op, comm);
                break;
            case 5:
                code = (enqueue ? MPIX_Bcast_enqueue : MPI_Bcast)(to, n, type, root, comm);
                break;
            case 6:
                code = (enqueue ? MPIX_Allgather_enqueue : MPI_Allgather)(from, n, type, to, n, type, comm);
                break;
            case 7:
                code = (enqueue ? MPIX_Alltoall_enqueue : MPI_Alltoall)(from, n, type, to, n, type, comm);
                break;
            case 8:
                code = (enqueue ? MPIX_Gather_enqueue : MPI_Gather)(from, n, type, to, n, type, root, comm);
                break;
            default:
                code = (enqueue ? MPIX_Scatter_enqueue : MPI_Scatter)(from, n, type, to, n, type, root, comm);
        }
        failures += code != MPI_SUCCESS;
    }

    // Around in a ring, by some number of steps; none is a message to itself.
    void messages() {
        const Type& type = types_[static_cast<std::size_t>(draw(0, 5))];
        const int count = draw(0, 4) == 0 ? draw(1, 30000) : draw(0, 300), tag = draw(0, 9), several = draw(1, 3);
        const int step = draw(0, size - 1), to = (rank + step) % size, from = (rank + size - step) % size;
        const auto elements = static_cast<std::size_t>(count);
        const bool any_tag = draw(0, 3) == 0, blocking = draw(0, 1) == 0, alone = draw(0, 1) == 0;
        const std::string what = std::to_string(several) + " messages of " + std::to_string(count) + " times " +
                                 type.name + " from rank " + std::to_string(from);
        std::vector<gpu::Memory*> sent, came;
        for (int i = 0; i < several; ++i) {
            sent.push_back(&queue_.buffer(kind(), content(type, elements, rank + 3 * i)));
            came.push_back(&queue_.buffer(kind(), content(type, elements, 90)));
        }
        come();
        std::vector<MPI_Request> requests(static_cast<std::size_t>(2 * several) + 1, MPI_REQUEST_NULL);
        std::vector<MPI_Status> statuses(requests.size());
        std::size_t used = 0;
        MPI_Status last;
        for (int i = 0; i < several; ++i) {
            const auto at = static_cast<std::size_t>(i);
            MPIX_Isend_enqueue(sent[at]->address(), count, type.type, to, tag + i, queue_.comm, &requests[used++]);
            if (blocking && i == several - 1)
                MPIX_Recv_enqueue(came[at]->address(), count, type.type, from, any_tag ? MPI_ANY_TAG : tag + i,
                                  queue_.comm, &last);
            else
                MPIX_Irecv_enqueue(came[at]->address(), count, type.type, from, any_tag ? MPI_ANY_TAG : tag + i,
                                   queue_.comm, &requests[used++]);
        }
        MPIX_Irecv_enqueue(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 1, queue_.comm, &requests[used]);
        if (alone)
            for (std::size_t i = 0; i <= used; ++i)
                MPIX_Wait_enqueue(&requests[i], &statuses[i]);
        else
            MPIX_Waitall_enqueue(static_cast<int>(used) + 1, requests.data(), statuses.data());
        check(statuses[used].MPI_SOURCE == MPI_PROC_NULL, what + ": the status of MPI_PROC_NULL");
        for (const MPI_Request& request : requests)
            check(request == MPI_REQUEST_NULL, what + ": a request is left");
        const MPI_Status& status = blocking ? last : statuses[used - 1];
        int elements_come = -1;
        MPI_Get_count(&status, type.type, &elements_come);
        check(status.MPI_SOURCE == from && elements_come == count && (any_tag || status.MPI_TAG == tag + several - 1),
              what + ": a status");
        for (int i = 0; i < several; ++i) {
            Bytes wanted = content(type, elements, 90);
            const Bytes theirs = content(type, elements, from + 3 * i);
            int packed = 0, position = 0;
            MPI_Pack_size(count, type.type, MPI_COMM_WORLD, &packed);
            Bytes between(static_cast<std::size_t>(packed) + 1);
            if (count != 0)
                MPI_Pack(theirs.data(), count, type.type, between.data(), packed, &position, MPI_COMM_WORLD);
            int read = 0;
            if (count != 0)
                MPI_Unpack(between.data(), position, &read, wanted.data(), count, type.type, MPI_COMM_WORLD);
            expect(what, *came[static_cast<std::size_t>(i)], std::move(wanted));
        }
    }

    void check(bool right, const std::string& what) {
        if (!right && ++failures < 5)
            std::fprintf(stderr, "rank %d of %d: %s: %s\n", rank, size, what_.c_str(), what.c_str());
    }

    std::mt19937 random_;
    Queue queue_;
    std::vector<Type> types_;
    std::vector<Check> checks_;
    std::string what_;
};

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("seed %u\n", seed);
    {
        Test test(seed, argc < 3);
        for (int i = 0; i < std::atoi(argv[1]) && failures == 0; ++i) {
            test.round(i);
            int all = 0;
            MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
            failures = all;
        }
    }
    MPI_Finalize();
    return failures != 0;
}
