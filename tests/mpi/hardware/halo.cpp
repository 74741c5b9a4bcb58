// Large messages of types that are not contiguous, in device and managed memory, around a ring of ranks. First a column
// of 1 MiB of a matrix (MPI_Type_vector), against arithmetic; then messages of random types of equal signature that lie
// in different ways at both ends, by several calls, against the same messages in host memory: all bytes of the buffers,
// those between the data too, and the statuses' counts. halo.test looks at their route.
//   halo ROUNDS [SEED]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../../random_seed.hpp"
#include "../gpu.hpp"
#include "../p2p/layout.hpp"

namespace {

using p2p_test::Dice;
using p2p_test::Layout;

int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (!right && failures++ < 5)
        std::fprintf(stderr, "FAILED: rank %d: %s\n", rank, what.c_str());
}

void columns(int round) {
    constexpr int kRows = 8192, kWidth = 32, kPitch = 80, kFirst = 5;
    MPI_Datatype column = MPI_DATATYPE_NULL;
    MPI_Type_vector(kRows, kWidth, kPitch, MPI_INT, &column);
    MPI_Type_commit(&column);
    const auto at = [](int row, int i) { return static_cast<std::size_t>(row * kPitch + kFirst + i); };
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    std::vector<int> mine(std::size_t{kRows} * kPitch, -1), wanted(mine.size(), -2);
    for (int row = 0; row < kRows; ++row)
        for (int i = 0; i < kWidth; ++i) {
            mine[at(row, i)] = rank * 1000003 + round * 7919 + row * kWidth + i;
            wanted[at(row, i)] = left * 1000003 + round * 7919 + row * kWidth + i;
        }
    const std::size_t bytes = mine.size() * sizeof(int);
    const gpu::Memory out(gpu::Kind::kDevice, bytes), in(gpu::Kind::kDevice, bytes);
    gpu::Driver::get().copy(out.address(), mine.data(), bytes);
    gpu::Driver::get().copy(in.address(), std::vector<int>(mine.size(), -2).data(), bytes);
    MPI_Sendrecv(out.at(kFirst * sizeof(int)), 1, column, right, round, in.at(kFirst * sizeof(int)), 1, column, left,
                 round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    gpu::Driver::get().copy(mine.data(), in.address(), bytes);
    expect(mine == wanted, "the column of round " + std::to_string(round));
    MPI_Type_free(&column);
}

// One end of a message: `count` elements of a type, and what surrounds them.
struct End {
    Layout layout;
    int count;
    std::size_t before, bytes;  // of the memory: those in front of the first element's address, and all

    End(Dice& dice, MPI_Datatype base, int unit, int count, bool sent)
        : layout(dice.below(5) == 0 ? p2p_test::make_plain_layout(base, unit)
                                    : p2p_test::make_layout(dice, base, unit, count, sent)),
          count(count) {
        const MPI_Aint last = (count - 1) * layout.extent;
        const MPI_Aint low = std::min<MPI_Aint>({layout.low, layout.low + last, 0});
        const MPI_Aint high = std::max<MPI_Aint>({layout.high, layout.high + last, 0});
        before = static_cast<std::size_t>(-low) + 64;
        bytes = before + static_cast<std::size_t>(high) + 64;
    }
};

struct Seen {
    int source, tag, elements, error;
    bool operator==(const Seen&) const = default;
};

enum class Way { kSendrecv, kNonBlocking, kPersistent, kMatched, kAbsolute, kWays };

// An address of the program's, or MPI_BOTTOM and a type that holds the address.
struct Argument {
    void* address;
    MPI_Datatype type;
    int count;
    Argument(const End& end, void* first, bool absolute) : address(first), type(end.layout.type), count(end.count) {
        if (!absolute)
            return;
        MPI_Aint at = 0;
        MPI_Get_address(first, &at);
        MPI_Type_create_hindexed(1, &end.count, &at, end.layout.type, &type);
        MPI_Type_commit(&type);
        address = MPI_BOTTOM;
        count = 1;
        owned = true;
    }
    ~Argument() {
        if (owned)
            MPI_Type_free(&type);
    }
    Argument(const Argument&) = delete;
    Argument& operator=(const Argument&) = delete;
    bool owned = false;
};

Seen message(Way way, const Argument& out, const Argument& in, int tag) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    MPI_Request both[2];
    if (way == Way::kSendrecv || way == Way::kAbsolute) {
        MPI_Sendrecv(out.address, out.count, out.type, right, tag, in.address, in.count, in.type, left, tag,
                     MPI_COMM_WORLD, &status);
    } else if (way == Way::kMatched) {
        MPI_Message found;
        MPI_Isend(out.address, out.count, out.type, right, tag, MPI_COMM_WORLD, both);
        MPI_Mprobe(left, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        MPI_Mrecv(in.address, in.count, in.type, &found, &status);
        MPI_Wait(both, MPI_STATUS_IGNORE);
    } else {
        const bool kept = way == Way::kPersistent;
        (kept ? MPI_Recv_init : MPI_Irecv)(in.address, in.count, in.type, left, tag, MPI_COMM_WORLD, both);
        (kept ? MPI_Send_init : MPI_Isend)(out.address, out.count, out.type, right, tag, MPI_COMM_WORLD, both + 1);
        for (int turn = 0; turn < (kept ? 2 : 1); ++turn) {
            if (kept)
                MPI_Startall(2, both);
            MPI_Status statuses[2];
            MPI_Waitall(2, both, statuses);
            status = statuses[0];
        }
        if (kept) {
            MPI_Request_free(both);
            MPI_Request_free(both + 1);
        }
    }
    Seen seen{status.MPI_SOURCE, status.MPI_TAG, 0, MPI_SUCCESS};
    MPI_Get_elements(&status, in.type, &seen.elements);
    return seen;
}

void random_message(unsigned seed) {
    Dice common(seed), sender(seed * 31u + static_cast<unsigned>(rank) + 1),
        receiver(seed * 57u + static_cast<unsigned>(rank) + 2);
    const MPI_Datatype bases[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    const MPI_Datatype base = bases[common.below(4)];
    const Way way = static_cast<Way>(common.below(static_cast<int>(Way::kWays)));
    const int per_unit = 1 + common.below(24), elements = per_unit * (12000 / per_unit + common.below(90000));
    const int unit = 1 + receiver.below(24), room = (elements + unit - 1) / unit + receiver.below(3);
    const End from(sender, base, per_unit, elements / per_unit, true);
    const End to(receiver, base, unit, room, false);
    std::vector<std::byte> content(from.bytes);
    for (std::size_t i = 0; i < content.size(); ++i)
        content[i] = static_cast<std::byte>((i * 2654435761u >> 11) + seed + static_cast<unsigned>(rank) * 77u);
    std::vector<std::byte> wanted(to.bytes, std::byte{0x5a});
    const bool absolute = way == Way::kAbsolute;
    const Seen right =
        message(way, {from, content.data() + from.before, absolute}, {to, wanted.data() + to.before, absolute}, 3);
    const gpu::Kind kind = sender.below(4) == 0 ? gpu::Kind::kManaged : gpu::Kind::kDevice;
    const gpu::Memory out(kind, content);
    const gpu::Memory in(receiver.below(4) == 0 ? gpu::Kind::kManaged : gpu::Kind::kDevice,
                         std::vector<std::byte>(to.bytes, std::byte{0x5a}));
    const Seen seen = message(way, {from, out.at(from.before), absolute}, {to, in.at(to.before), absolute}, 3);
    const std::string what = "seed " + std::to_string(seed) + ", way " + std::to_string(static_cast<int>(way));
    expect(seen == right, what + ": the status: " + std::to_string(seen.elements) + " elements instead of " +
                              std::to_string(right.elements));
    expect(in.read() == wanted, what + ": the data, or what is between them");
    expect(out.read() == content, what + ": the send buffer");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
    unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d rounds from seed %u\n", rounds, seed);
    {  // makes the NCCL communicator that messages may share
        const gpu::Memory sum(gpu::Kind::kDevice, std::vector<std::byte>(std::size_t{1} << 20));
        MPI_Allreduce(MPI_IN_PLACE, sum.address(), 1 << 18, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    for (int round = 0; round < 12; ++round)
        columns(round);
    for (int i = 0; i < rounds; ++i)
        random_message(seed + static_cast<unsigned>(i));
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
