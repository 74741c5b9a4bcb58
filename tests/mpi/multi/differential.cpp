// The extension's collectives on several buffers of each process give what MPI says of collectives on as many
// processes: random numbers of places, counts, datatypes, operators, roots and kinds of memory, in place or not, some
// under way at once, with other collectives between them. The expected values are arithmetic. Option: --rounds N.
// launch: --relinked -n 3 --gpus 9 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_JITTER=3 -- --rounds 120
// launch: --relinked -n 2 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1 -x SWITCHYARD_DETERMINISTIC=1 -- --rounds 40
// launch: --relinked -n 4 --gpus 12 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x SWITCHYARD_REPORT=1 -- --rounds 50
// launch: --relinked -n 1 --gpus 3 -x SWITCHYARD_NCCL_THRESHOLD=1000 -- --rounds 40
// launch: --relinked -n 2 -- --rounds 40
#include <mpi.h>
#include <mpix_switchyard.h>

#include <cstdio>
#include <cstdlib>
#include <list>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "../../random_seed.hpp"
#include "place.hpp"

namespace {

using place::Buffer;
using place::Op;
using place::Type;
using place::Value;
using place::Values;

constexpr int kDevices = 3;  // of each rank

enum class Kind { kBcast, kReduce, kAllreduce, kReduceScatter, kAllgather, kAlltoall };
constexpr int kKinds = 6;
enum class Where { kDevices, kHost, kOneDevice, kAnywhere };

int rank = 0, size = 0, failures = 0;
bool has_gpus = false;

struct Shape {
    std::vector<int> counts;  // places, by rank
    Kind kind = Kind::kBcast;
    Type type = Type::kInt;
    Op op = Op::kSum;
    Where where = Where::kDevices;
    int count = 0, root = 0;
    bool in_place = false, blocking = true;
    unsigned seed = 0;

    int places() const { return std::accumulate(counts.begin(), counts.end(), 0); }
    int first() const { return std::accumulate(counts.begin(), counts.begin() + rank, 0); }
    int own() const { return counts[static_cast<std::size_t>(rank)]; }
    bool reduces() const { return kind >= Kind::kReduce && kind <= Kind::kReduceScatter; }
};

// What place `from` has for its element `at`, of all blocks.
Value value(const Shape& shape, int from, int at) {
    const unsigned mixed = (shape.seed + static_cast<unsigned>(from) * 7919u + static_cast<unsigned>(at) * 104729u);
    const unsigned hash = (mixed ^ (mixed >> 7)) * 2654435761u;
    return {static_cast<int>((hash >> 8) % 100), static_cast<int>((hash >> 16) % 100)};
}

Values given(const Shape& shape, int from) {
    const bool many = shape.kind == Kind::kReduceScatter || shape.kind == Kind::kAlltoall;
    Values values;
    for (int at = 0; at < shape.count * (many ? shape.places() : 1); ++at)
        values.push_back(value(shape, from, at));
    return values;
}

Value reduced(const Shape& shape, int at) {
    Value all = value(shape, 0, at);
    for (int from = 1; from < shape.places(); ++from)
        all = place::apply(shape.op, all, value(shape, from, at));
    return all;
}

// What place `to` must have afterwards, from the beginning of its buffer on.
Values expected(const Shape& shape, int to) {
    Values values;
    for (int at = 0; at < shape.count; ++at) {
        if (shape.kind == Kind::kBcast)
            values.push_back(value(shape, shape.root, at));
        if (shape.kind == Kind::kAllreduce || shape.kind == Kind::kReduce)
            values.push_back(reduced(shape, at));
        if (shape.kind == Kind::kReduceScatter)
            values.push_back(reduced(shape, to * shape.count + at));
    }
    const bool blocks = shape.kind == Kind::kAllgather || shape.kind == Kind::kAlltoall;
    for (int from = 0; blocks && from < shape.places(); ++from)
        for (int at = 0; at < shape.count; ++at)
            values.push_back(value(shape, from, shape.kind == Kind::kAlltoall ? to * shape.count + at : at));
    return values;
}

class Round {
  public:
    Round(const Shape& shape, int number) : shape_(shape), number_(number) {
        for (int i = 0; i < shape.own(); ++i) {
            make(i);
            sends_.push_back(in_.back().address());
            receives_.push_back(out_.back().address());
        }
    }

    void begin() {
        const void* const* sends = sends_.data();
        if (shape_.in_place && shape_.kind != Kind::kReduce)
            sends = static_cast<const void* const*>(MPI_IN_PLACE);
        void* const* receives = receives_.data();
        const MPI_Datatype type = place::handle(shape_.type);
        const MPI_Op op = place::handle(shape_.op);
        const int n = shape_.own(), count = shape_.count;
        MPI_Request* r = &request_;
        const MPI_Comm w = MPI_COMM_WORLD;
        const bool b = shape_.blocking;
        switch (shape_.kind) {
            case Kind::kBcast:
                b ? MPIX_Bcast_multi(receives, n, count, type, shape_.root, w)
                  : MPIX_Ibcast_multi(receives, n, count, type, shape_.root, w, r);
                break;
            case Kind::kReduce:
                b ? MPIX_Reduce_multi(sends, receives, n, count, type, op, shape_.root, w)
                  : MPIX_Ireduce_multi(sends, receives, n, count, type, op, shape_.root, w, r);
                break;
            case Kind::kAllreduce:
                b ? MPIX_Allreduce_multi(sends, receives, n, count, type, op, w)
                  : MPIX_Iallreduce_multi(sends, receives, n, count, type, op, w, r);
                break;
            case Kind::kReduceScatter:
                b ? MPIX_Reduce_scatter_block_multi(sends, receives, n, count, type, op, w)
                  : MPIX_Ireduce_scatter_block_multi(sends, receives, n, count, type, op, w, r);
                break;
            case Kind::kAllgather:
                b ? MPIX_Allgather_multi(sends, receives, n, count, type, count, type, w)
                  : MPIX_Iallgather_multi(sends, receives, n, count, type, count, type, w, r);
                break;
            case Kind::kAlltoall:
                b ? MPIX_Alltoall_multi(sends, receives, n, count, type, count, type, w)
                  : MPIX_Ialltoall_multi(sends, receives, n, count, type, count, type, w, r);
                break;
        }
    }
    MPI_Request request() const { return request_; }

    void check() const {
        for (int i = 0; i < shape_.own(); ++i) {
            const int number = shape_.first() + i;
            const auto index = static_cast<std::size_t>(i);
            const bool receives = shape_.kind != Kind::kReduce || number == shape_.root;
            Values wanted = expected(shape_, number);
            if (!receives)
                wanted = out_[index].content();
            int wrong = out_[index].compare(wanted);
            if (shape_.kind != Kind::kBcast)  // nothing else is written
                wrong += in_[index].compare(in_[index].content());
            failures += wrong != 0 ? 1 : 0;
            if (wrong != 0)
                std::printf(
                    "round %d, rank %d, buffer %d (place %d of %d): %d elements are wrong; kind %d, type %d, op %d, "
                    "where %d, count %d, root %d%s%s\n",
                    number_, rank, i, number, shape_.places(), wrong, static_cast<int>(shape_.kind),
                    static_cast<int>(shape_.type), static_cast<int>(shape_.op), static_cast<int>(shape_.where),
                    shape_.count, shape_.root, shape_.in_place ? ", in place" : "", shape_.blocking ? "" : ", begun");
        }
    }

  private:
    void make(int i) {
        const int number = shape_.first() + i;
        gpu::Kind kind = gpu::Kind::kDevice;
        int device = rank * kDevices + i;
        if (shape_.where == Where::kOneDevice)
            device = rank * kDevices;
        if (shape_.where == Where::kHost || !has_gpus)
            kind = gpu::Kind::kHost;
        else if (shape_.where == Where::kAnywhere)
            kind = gpu::kKinds[(shape_.seed + static_cast<unsigned>(number)) % 4];
        const Values mine = given(shape_, number);
        Values landing(static_cast<std::size_t>(shape_.count) * static_cast<std::size_t>(blocks_received()),
                       Value{-1, -1});
        const bool here = shape_.kind != Kind::kReduce || number == shape_.root;
        if (shape_.kind == Kind::kBcast ? number == shape_.root : shape_.in_place && here)
            put_in_place(mine, number, landing);
        in_.emplace_back(kind, device, shape_.type, mine);
        out_.emplace_back(kind, device, shape_.type, landing);
        if (shape_.in_place && shape_.kind == Kind::kReduce && here)
            marked_ = i;
    }
    void put_in_place(const Values& mine, int number, Values& landing) const {
        const bool own_block = shape_.kind == Kind::kAllgather;
        for (std::size_t at = 0; at < mine.size(); ++at)
            landing[at + (own_block ? static_cast<std::size_t>(number * shape_.count) : 0)] = mine[at];
    }
    int blocks_received() const {
        const bool many = shape_.kind == Kind::kAllgather || shape_.kind == Kind::kAlltoall ||
                          (shape_.kind == Kind::kReduceScatter && shape_.in_place);
        return many ? shape_.places() : 1;
    }

  public:
    void mark_in_place() {
        if (marked_ >= 0)
            sends_[static_cast<std::size_t>(marked_)] = MPI_IN_PLACE;
    }

  private:
    const Shape shape_;
    const int number_;
    std::vector<Buffer> in_, out_;
    std::vector<const void*> sends_;
    std::vector<void*> receives_;
    int marked_ = -1;
    MPI_Request request_ = MPI_REQUEST_NULL;
};

void complete(std::list<Round>& rounds) {
    std::vector<MPI_Request> requests;
    for (const Round& round : rounds)
        requests.push_back(round.request());
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (const Round& round : rounds)
        round.check();
    rounds.clear();
}

class Draw {
  public:
    explicit Draw(unsigned seed) : random_(seed) {}
    int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

    std::vector<int> counts() {
        std::vector<int> all;
        for (int r = 0; r < size; ++r)
            all.push_back(below(kDevices + 1));
        return all;
    }
    Shape shape(const std::vector<int>& counts) {
        Shape s;
        s.counts = counts;
        s.kind = static_cast<Kind>(below(kKinds));
        const int types = s.reduces() ? 2 : place::kTypes;
        s.type = static_cast<Type>(below(types));
        s.op = static_cast<Op>(below(s.type == Type::kInt ? 3 : 2));
        if (s.reduces() && below(5) == 0) {
            s.type = Type::kPair;
            s.op = Op::kCompose;
        }
        constexpr Where kWhere[] = {Where::kDevices, Where::kDevices, Where::kDevices,   Where::kDevices,
                                    Where::kDevices, Where::kHost,    Where::kOneDevice, Where::kAnywhere};
        s.where = kWhere[below(8)];
        constexpr int kCounts[] = {0, 30, 400, 1500, 1500};
        s.count = kCounts[below(5)];
        s.root = s.places() > 0 ? below(s.places()) : 0;
        s.in_place = below(3) == 0;
        s.blocking = below(2) == 0;
        s.seed = static_cast<unsigned>(random_());
        return s;
    }

  private:
    std::mt19937 random_;
};

// The program's other collectives keep their places in the order.
void other_collective(int number) {
    int sum = 0;
    const int mine = number + rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * number + size * (size - 1) / 2) {
        std::printf("round %d, rank %d: MPI_Allreduce beside the others gave %d\n", number, rank, sum);
        ++failures;
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = 50;
    for (int i = 1; i + 1 < argc; ++i)
        if (std::string_view(argv[i]) == "--rounds")
            rounds = std::atoi(argv[i + 1]);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("SWY_RANDOM_SEED=%u\n", seed);
    has_gpus = std::getenv("VGPU_COUNT") != nullptr;
    if (has_gpus && gpu::Driver::get().devices < kDevices * size)
        return 77;
    Draw draw(seed);
    if (!has_gpus)
        MPIX_Bcast_multi(nullptr, 0, 0, MPI_INT, 0, MPI_COMM_WORLD);  // the first one must block
    std::vector<int> counts = draw.counts();
    std::list<Round> under_way;
    for (int number = 0; number < rounds; ++number) {
        if (draw.below(9) == 0)
            counts = draw.counts();
        const Shape shape = draw.shape(counts);
        under_way.emplace_back(shape, number);
        under_way.back().mark_in_place();
        under_way.back().begin();
        if (draw.below(3) == 0)
            other_collective(number);
        if (draw.below(4) == 0 || under_way.size() == 6)
            complete(under_way);
    }
    complete(under_way);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
