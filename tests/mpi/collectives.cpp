// Random blocking collectives on buffers whose location is drawn for each rank and buffer, compared byte for byte with
// the same call on host memory, which Open MPI carries. All ranks draw the same numbers, so each knows what the others
// do.
// clang-format off
// launch: -n 1 --gpus 1 -- --rounds 60
// launch: -n 2 --gpus 2 -- --rounds 250
// launch: -n 3 --gpus 3 -x VGPU_JITTER=7 -- --rounds 200
// launch: -n 4 --gpus 4 -- --rounds 250
// launch: -n 5 --gpus 5 -x VGPU_JITTER=11 -- --rounds 120
// launch: -n 8 --gpus 8 -- --rounds 60
// launch: -n 4 --gpus 2 -- --rounds 120
// launch: -n 3 --gpus 3 -x SWITCHYARD_AGREE=mpi -- --rounds 100
// launch: -n 3 --gpus 3 -x SWITCHYARD_NCCL=0 -- --rounds 80
// launch: -n 4 --gpus 4 --drawn-machine -x VGPU_JITTER=12 -- --rounds 100
// launch: -n 2 --gpus 2 -- --rounds 150 --all-device
// test-timeout: 240
// clang-format on

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../random_seed.hpp"
#include "gpu.hpp"

namespace {

using Bytes = std::vector<std::byte>;

struct Type {
    const char* name;
    MPI_Datatype type;
    enum class Is { kInteger, kFloating, kComplex, kLogical, kPair, kOpaque } is;
};
struct Op {
    const char* name;
    MPI_Op op;
    bool integer, floating, complex, logical, pair;
};

enum class Which {
    kAllreduce,
    kReduce,
    kBcast,
    kAllgather,
    kAlltoall,
    kReduceScatterBlock,
    kReduceScatter,
    kScan,
    kExscan
};
constexpr const char* kNames[] = {"Allreduce",      "Reduce", "Bcast", "Allgather", "Alltoall", "Reduce_scatter_block",
                                  "Reduce_scatter", "Scan",   "Exscan"};

struct Round {
    Which which;
    const Type* type;
    const Op* op;
    int count, root;
    bool in_place, uneven;
    std::vector<gpu::Kind> send_kind, recv_kind;  // by rank of the communicator
};

constexpr std::size_t kGuard = 64;
constexpr int kReported = 5;

class Test {
  public:
    Test(std::uint64_t seed, bool all_device) : random_(seed), all_device_(all_device) {
        MPI_Comm_rank(MPI_COMM_WORLD, &world_rank_);
        int size = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Comm reversed, parity, dup;
        MPI_Comm_split(MPI_COMM_WORLD, 0, size - world_rank_, &reversed);
        MPI_Comm_split(MPI_COMM_WORLD, world_rank_ % 2, world_rank_, &parity);
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        comms_ = {MPI_COMM_WORLD, MPI_COMM_WORLD, dup, reversed, parity};
        MPI_Type_contiguous(3, MPI_FLOAT, &triple_);
        MPI_Type_vector(4, 2, 3, MPI_INT, &vector_);
        MPI_Type_create_resized(MPI_DOUBLE, -8, 24, &resized_);
        for (MPI_Datatype* type : {&triple_, &vector_, &resized_})
            MPI_Type_commit(type);
        using Is = Type::Is;
        types_ = {{"INT", MPI_INT, Is::kInteger},
                  {"FLOAT", MPI_FLOAT, Is::kFloating},
                  {"DOUBLE", MPI_DOUBLE, Is::kFloating},
                  {"INT8_T", MPI_INT8_T, Is::kInteger},
                  {"UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, Is::kInteger},
                  {"SHORT", MPI_SHORT, Is::kInteger},
                  {"UINT32_T", MPI_UINT32_T, Is::kInteger},
                  {"LONG", MPI_LONG, Is::kInteger},
                  {"UINT64_T", MPI_UINT64_T, Is::kInteger},
                  {"INTEGER", MPI_INTEGER, Is::kFloating},  // logical operators are not for Fortran's integers
                  {"DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, Is::kFloating},
                  {"C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, Is::kComplex},
                  {"C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, Is::kComplex},
                  {"LONG_DOUBLE", MPI_LONG_DOUBLE, Is::kFloating},
                  {"C_BOOL", MPI_C_BOOL, Is::kLogical},
                  {"LOGICAL", MPI_LOGICAL, Is::kLogical},
                  {"DOUBLE_INT", MPI_DOUBLE_INT, Is::kPair},
                  {"2INT", MPI_2INT, Is::kPair},
                  {"BYTE", MPI_BYTE, Is::kOpaque},
                  {"contiguous", triple_, Is::kOpaque},
                  {"vector", vector_, Is::kOpaque},
                  {"resized", resized_, Is::kOpaque}};
        ops_ = {{"SUM", MPI_SUM, true, true, true, false, false},
                {"PROD", MPI_PROD, true, true, true, false, false},
                {"MIN", MPI_MIN, true, true, false, false, false},
                {"MAX", MPI_MAX, true, true, false, false, false},
                {"LAND", MPI_LAND, true, false, false, true, false},
                {"BXOR", MPI_BXOR, true, false, false, false, false},
                {"MAXLOC", MPI_MAXLOC, false, false, false, false, true}};
    }

    bool run(int round) {
        comm_ = comms_[draw(comms_.size())];
        MPI_Comm_rank(comm_, &rank_);
        // The halves of a split differ in size, and the drawing must not: the world's size is drawn for, the
        // communicator's used.
        MPI_Comm_size(comm_, &size_);
        const Round what = draw_round();
        const bool good = compare(what);
        if (!good && ++reported_ <= kReported)
            std::fprintf(stderr,
                         "round %d on rank %d: %s of %d x %s, op %s, root %d%s, %d ranks: send on %s, receive on %s: "
                         "differs from host MPI\n",
                         round, world_rank_, kNames[static_cast<int>(what.which)], what.count, what.type->name,
                         what.op ? what.op->name : "-", what.root, what.in_place ? ", in place" : "", size_,
                         gpu::name(what.send_kind[static_cast<std::size_t>(rank_)]),
                         gpu::name(what.recv_kind[static_cast<std::size_t>(rank_)]));
        return good;
    }

    void finish() {
        for (std::size_t i = 2; i < comms_.size() - 1;
             ++i)  // the last is left to MPI_Finalize: a program may forget it
            MPI_Comm_free(&comms_[i]);
        for (MPI_Datatype* type : {&triple_, &vector_, &resized_})
            MPI_Type_free(type);
    }

  private:
    std::size_t draw(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

    bool reduces(Which which) const {
        return which == Which::kAllreduce || which == Which::kReduce || which == Which::kReduceScatterBlock ||
               which == Which::kReduceScatter || which == Which::kScan || which == Which::kExscan;
    }

    bool defined(const Type& type, const Op& op) const {
        using Is = Type::Is;
        return (type.is == Is::kInteger && op.integer) || (type.is == Is::kFloating && op.floating) ||
               (type.is == Is::kComplex && op.complex) || (type.is == Is::kLogical && op.logical) ||
               (type.is == Is::kPair && op.pair);
    }

    int draw_count() {
        // Around the threshold of 64 KiB for elements of 1 to 16 bytes, and with several blocks; small; none; large.
        constexpr int kCounts[] = {0,    1,     7,     100,   1023,  4095,  4096,  8191,
                                   8192, 16384, 16385, 32768, 65535, 65536, 65537, 150000};
        return kCounts[draw(std::size(kCounts))];
    }

    Round draw_round() {
        Round round{};
        round.which = static_cast<Which>(draw(std::size(kNames)));
        const std::size_t type = draw(types_.size()), op = draw(ops_.size());
        round.type = &types_[type];
        if (reduces(round.which)) {
            round.op = &ops_[op];
            while (!defined(*round.type, *round.op)) {
                round.type = &types_[draw(types_.size())];
                round.op = &ops_[draw(ops_.size())];
            }
        }
        round.count = draw_count();
        if ((round.which == Which::kAlltoall || round.which == Which::kAllgather ||
             round.which == Which::kReduceScatterBlock || round.which == Which::kReduceScatter))
            round.count = std::min(round.count, 40000);
        const std::size_t root = draw(1000);
        round.root = static_cast<int>(root % static_cast<std::size_t>(smallest_size()));
        round.in_place = draw(3) == 0;
        round.uneven = draw(2) == 0;
        const std::size_t mode = draw(3);  // all device, all host, anything
        for (int i = 0; i < 16; ++i) {
            const std::size_t a = draw(4), b = draw(4);
            round.send_kind.push_back(mode == 0 || all_device_ ? gpu::Kind::kDevice
                                      : mode == 1              ? gpu::Kind::kHost
                                                               : gpu::kKinds[a]);
            round.recv_kind.push_back(mode == 0 || all_device_ ? gpu::Kind::kDevice
                                      : mode == 1              ? gpu::Kind::kHost
                                                               : gpu::kKinds[b]);
        }
        return round;
    }

    // The two halves of the split by parity run the same round at once and must draw alike: roots must exist in both.
    int smallest_size() const {
        int world = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &world);
        return comm_ == comms_.back() ? std::max(1, world / 2) : size_;
    }

    // Bytes whose sums, products and comparisons are exact in every type: small whole numbers.
    void fill(Bytes& bytes, const Type& type, std::size_t first, std::size_t elements, int salt) const {
        MPI_Aint lb = 0, extent = 0;
        MPI_Type_get_extent(type.type, &lb, &extent);
        for (std::size_t i = 0; i < elements; ++i) {
            const int value = static_cast<int>((i * 7 + static_cast<std::size_t>(salt) * 13) % 3);
            put(&bytes[first + i * static_cast<std::size_t>(extent)], type, value);
        }
    }

    template <typename T>
    static void store(std::byte* at, T value) {
        std::memcpy(at, &value, sizeof value);
    }

    static void put(std::byte* at, const Type& type, int value) {
        const MPI_Datatype t = type.type;
        if (t == MPI_FLOAT)
            store(at, static_cast<float>(value));
        else if (t == MPI_DOUBLE || t == MPI_DOUBLE_PRECISION)
            store(at, static_cast<double>(value));
        else if (t == MPI_INT || t == MPI_INTEGER || t == MPI_UINT32_T || t == MPI_LOGICAL)
            store(at, value);
        else if (t == MPI_LONG || t == MPI_UINT64_T)
            store(at, static_cast<std::int64_t>(value));
        else if (t == MPI_SHORT)
            store(at, static_cast<short>(value));
        else if (t == MPI_C_FLOAT_COMPLEX) {
            store(at, static_cast<float>(value));
            store(at + 4, static_cast<float>(1 - value));
        } else if (t == MPI_C_DOUBLE_COMPLEX) {
            store(at, static_cast<double>(value));
            store(at + 8, static_cast<double>(1 - value));
        } else if (t == MPI_LONG_DOUBLE) {
            std::memset(at, 0, sizeof(long double));
            store(at, static_cast<long double>(value));
        } else if (t == MPI_C_BOOL)
            store(at, value != 0);
        else if (t == MPI_DOUBLE_INT) {
            store(at, static_cast<double>(value));
            store(at + 8, value);
        } else if (t == MPI_2INT) {
            store(at, value);
            store(at + 4, value);
        } else
            store(at, static_cast<std::int8_t>(value + 1));
    }

    int invoke(const Round& r, void* send, void* recv) const {
        const MPI_Datatype t = r.type->type;
        switch (r.which) {
            case Which::kAllreduce:
                return MPI_Allreduce(send, recv, r.count, t, r.op->op, comm_);
            case Which::kReduce:
                return MPI_Reduce(send, recv, r.count, t, r.op->op, r.root, comm_);
            case Which::kBcast:
                return MPI_Bcast(recv, r.count, t, r.root, comm_);
            case Which::kAllgather:
                return MPI_Allgather(send, r.count, t, recv, r.count, t, comm_);
            case Which::kAlltoall:
                return MPI_Alltoall(send, r.count, t, recv, r.count, t, comm_);
            case Which::kScan:
                return MPI_Scan(send, recv, r.count, t, r.op->op, comm_);
            case Which::kExscan:
                return MPI_Exscan(send, recv, r.count, t, r.op->op, comm_);
            case Which::kReduceScatter:
                return MPI_Reduce_scatter(send, recv, counts_of(r).data(), t, r.op->op, comm_);
            default:
                return MPI_Reduce_scatter_block(send, recv, r.count, t, r.op->op, comm_);
        }
    }

    // The same for all ranks, or different ones with none among them.
    std::vector<int> counts_of(const Round& r) const {
        std::vector<int> counts(static_cast<std::size_t>(size_), r.count);
        for (std::size_t i = 0; i < counts.size() && r.uneven; ++i)
            counts[i] = static_cast<int>(
                (static_cast<std::size_t>(r.count) * ((i + static_cast<std::size_t>(r.root)) % 3)) / 2);
        return counts;
    }

    // In place, what MPI leaves of the rest of the input is not said.
    Bytes told(const Round& r, bool in_place, Bytes bytes, std::size_t step) const {
        if (r.which == Which::kReduceScatter && in_place) {
            const auto own = static_cast<std::size_t>(counts_of(r)[static_cast<std::size_t>(rank_)]);
            std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(kGuard + own * step),
                      bytes.end() - static_cast<std::ptrdiff_t>(kGuard), std::byte{0});
        }
        return bytes;
    }

    bool compare(const Round& r) {
        MPI_Aint lb = 0, extent = 0;
        MPI_Type_get_extent(r.type->type, &lb, &extent);
        const auto count = static_cast<std::size_t>(r.count), ranks = static_cast<std::size_t>(size_);
        const bool many_send =
            r.which == Which::kAlltoall || r.which == Which::kReduceScatterBlock || r.which == Which::kReduceScatter;
        bool in_place = r.in_place && r.which != Which::kBcast && (r.which != Which::kReduce || rank_ == r.root);
        const bool many_recv = r.which == Which::kAlltoall || r.which == Which::kAllgather || (in_place && many_send);
        std::size_t send_elements = count * (many_send ? ranks : 1), recv_elements = count * (many_recv ? ranks : 1);
        if (r.which == Which::kReduceScatter) {
            const std::vector<int> counts = counts_of(r);
            send_elements = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
            recv_elements =
                in_place ? send_elements : static_cast<std::size_t>(counts[static_cast<std::size_t>(rank_)]);
        }
        const auto step = static_cast<std::size_t>(extent);
        Bytes send(2 * kGuard + send_elements * step, std::byte{0x5a}),
            recv(2 * kGuard + recv_elements * step, std::byte{0xa5});
        fill(send, *r.type, kGuard, send_elements, rank_ + 1);
        if (in_place || r.which == Which::kBcast)
            fill(recv, *r.type, kGuard, recv_elements, rank_ + 1);
        // MPI_Reduce ignores the receive buffer elsewhere; a null pointer must do.
        const bool no_recv = r.which == Which::kReduce && rank_ != r.root;
        Bytes host_send = send, host_recv = recv;
        const std::size_t start = kGuard + static_cast<std::size_t>(lb < 0 ? -lb : 0);
        invoke(r, in_place ? MPI_IN_PLACE : host_send.data() + start, no_recv ? nullptr : host_recv.data() + start);
        const gpu::Memory s(r.send_kind[static_cast<std::size_t>(rank_)], send),
            v(r.recv_kind[static_cast<std::size_t>(rank_)], recv);
        const int rc = invoke(r, in_place ? MPI_IN_PLACE : s.at(start), no_recv ? nullptr : v.at(start));
        return rc == MPI_SUCCESS && s.read() == send &&
               told(r, in_place, v.read(), step) == told(r, in_place, host_recv, step);
    }

    std::mt19937_64 random_;
    int reported_ = 0;
    bool all_device_;
    int world_rank_ = 0, rank_ = 0, size_ = 0;
    MPI_Comm comm_ = MPI_COMM_WORLD;
    std::vector<MPI_Comm> comms_;
    std::vector<Type> types_;
    std::vector<Op> ops_;
    MPI_Datatype triple_ = MPI_DATATYPE_NULL, vector_ = MPI_DATATYPE_NULL, resized_ = MPI_DATATYPE_NULL;
};

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int rounds = 100;
    std::uint64_t seed = random_seed();
    bool all_device = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--rounds" && i + 1 < argc)
            rounds = std::atoi(argv[++i]);
        else if (option == "--seed" && i + 1 < argc)
            seed = std::strtoull(argv[++i], nullptr, 10);
        else if (option == "--all-device")
            all_device = true;
    }
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("seed %llu, %d rounds\n", static_cast<unsigned long long>(seed), rounds);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(rank % driver.devices);
    Test test(seed, all_device);
    int bad = 0;
    for (int round = 0; round < rounds; ++round)
        bad += test.run(round) ? 0 : 1;
    test.finish();
    int worst = 0;
    MPI_Allreduce(&bad, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        std::printf("%s\n", worst == 0 ? "all as host MPI" : "differences, see above; run again with --seed");
    return worst == 0 ? 0 : 1;
}
