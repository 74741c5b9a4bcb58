// Large device messages into receives that have no room for what stands in for them: MPI_ERR_TRUNCATE, and each sender
// finishes but those of non-blocking receives into host memory with hardly any room, which nobody looks at. One after
// the other, several of one tag at once among others that are whole, by wildcards, between groups, and beside a message
// with the same tag on another communicator, or behind an ordinary one, which arrives. That all senders finish shows in
// that the test ends; the data that is received against arithmetic.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_THRESHOLD=1K
// test-timeout: 90
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "../gpu.hpp"
#include "../pml.hpp"
#include "truncated.hpp"

namespace {

using gpu::Kind;
using Bytes = std::vector<std::byte>;

constexpr int kLarge = 100000;
constexpr int kRooms[] = {0, 8, 48, 96};
int rank = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s\n", what.c_str());
    ++failures;
}

Bytes content(int which) {
    Bytes all(kLarge);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::byte>((i + 1 + static_cast<unsigned>(which)) * 2654435761u >> 13);
    return all;
}

// Is it a non-blocking receive into host memory with less room than that?
bool is_unwatched(const truncated::Receive& receive, int room, Kind to) {
    return to == Kind::kHost && room < 93 && std::string_view(receive.name).starts_with("Irecv");
}

void every_way(MPI_Comm comm, bool unwatched) {
    const gpu::Memory large(Kind::kDevice, kLarge);
    for (const truncated::Receive& receive : truncated::kReceives)
        for (const int room : kRooms)
            for (const Kind to : {Kind::kHost, Kind::kDevice}) {
                if (is_unwatched(receive, room, to) != unwatched)
                    continue;
                if (rank == 1) {
                    MPI_Request request = MPI_REQUEST_NULL;
                    MPI_Isend(large.at(0), kLarge, MPI_BYTE, 0, truncated::kTag, comm, &request);
                    unwatched ? MPI_Request_free(&request) : MPI_Wait(&request, MPI_STATUS_IGNORE);
                    continue;
                }
                const gpu::Memory memory(to, 128);
                int in_status = MPI_SUCCESS;
                const int count = room / static_cast<int>(sizeof(double));
                int mpi_class = truncated::class_of(receive.make(memory.at(0), count, comm, in_status));
                if (mpi_class == MPI_ERR_IN_STATUS)
                    mpi_class = in_status;
                expect(mpi_class == MPI_ERR_TRUNCATE, "MPI_" + std::string(receive.name) + " into " +
                                                          std::to_string(room) + " bytes of " + gpu::name(to) +
                                                          " memory: class " + std::to_string(mpi_class));
            }
}

// Messages of one tag, in order: whole, short, short, whole, and so on. They are under way at once.
void in_order(MPI_Comm comm, int tag, bool wildcards, Kind to) {
    constexpr int kMessages = 12;
    const auto is_short = [](int m) { return m % 4 == 1 || m % 4 == 2; };
    std::vector<gpu::Memory> memories;
    std::vector<MPI_Request> requests(kMessages);
    if (rank == 1) {
        for (int m = 0; m < kMessages; ++m) {
            memories.emplace_back(Kind::kDevice, content(m));
            MPI_Isend(memories.back().at(0), kLarge, MPI_BYTE, 0, tag, comm, &requests[static_cast<std::size_t>(m)]);
        }
        MPI_Barrier(comm);
        MPI_Waitall(kMessages, requests.data(), MPI_STATUSES_IGNORE);
        return;
    }
    MPI_Barrier(comm);
    const int source = wildcards ? MPI_ANY_SOURCE : 1, any = wildcards ? MPI_ANY_TAG : tag;
    std::vector<char> small(64);
    for (int m = 0; m < kMessages; ++m) {
        memories.emplace_back(to, kLarge);
        MPI_Request& request = requests[static_cast<std::size_t>(m)];
        // Those that are whole are pending when short ones come to an end.
        if (!is_short(m))
            MPI_Irecv(memories.back().at(0), kLarge, MPI_BYTE, source, any, comm, &request);
        else
            expect(truncated::class_of(MPI_Recv(small.data(), 50, MPI_BYTE, source, any, comm, MPI_STATUS_IGNORE)) ==
                       MPI_ERR_TRUNCATE,
                   "MPI_ERR_TRUNCATE of a short receive between others");
    }
    for (int m = 0; m < kMessages; ++m)
        if (!is_short(m)) {
            const int code = MPI_Wait(&requests[static_cast<std::size_t>(m)], MPI_STATUS_IGNORE);
            expect(code == MPI_SUCCESS && memories[static_cast<std::size_t>(m)].read() == content(m),
                   "message " + std::to_string(m) + " between short receives");
        }
}

// The other communicator has the same two ranks the other way round, and its message is older.
void beside_another(MPI_Comm comm, MPI_Comm turned) {
    if (rank == 1) {
        const gpu::Memory right(Kind::kDevice, content(1)), lost(Kind::kDevice, content(2));
        MPI_Request requests[2];
        MPI_Isend(right.at(0), kLarge, MPI_BYTE, 1, 3, turned, &requests[0]);
        MPI_Isend(lost.at(0), kLarge, MPI_BYTE, 0, 3, comm, &requests[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    char small[50];
    expect(truncated::class_of(MPI_Recv(small, 50, MPI_BYTE, 1, 3, comm, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE,
           "MPI_ERR_TRUNCATE beside another communicator");
    const gpu::Memory memory(Kind::kDevice, kLarge);
    const int code = MPI_Recv(memory.at(0), kLarge, MPI_BYTE, 0, 3, turned, MPI_STATUS_IGNORE);
    expect(code == MPI_SUCCESS && memory.read() == content(1), "the message on another communicator");
}

// An ordinary message, as long as what stands in for a large one, comes into a receive that is too short; the large
// message behind it, of the same tag, is another's. Over other layers than ob1 the library cannot see the difference.
void behind_an_ordinary_message(MPI_Comm comm, bool blocking) {
    constexpr int kOrdinary = 101;
    char ordinary[kOrdinary] = {};
    if (rank == 1) {
        const gpu::Memory large(Kind::kDevice, content(7));
        MPI_Send(ordinary, kOrdinary, MPI_CHAR, 0, 8, comm);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Isend(large.at(0), kLarge, MPI_BYTE, 0, 8, comm, &request);
        for (int ended = 0; ended == 0;)  // so that this rank hears of the short receive before the next one
            MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
        return;
    }
    int code = MPI_SUCCESS;
    if (blocking) {
        code = MPI_Recv(ordinary, 50, MPI_CHAR, 1, 8, comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Recv_init(ordinary, 50, MPI_CHAR, 1, 8, comm, &request);
        MPI_Start(&request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    }
    expect(truncated::class_of(code) == MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE of an ordinary message");
    for (int i = 0; i < 100; ++i) {
        int there = 0;
        MPI_Iprobe(1, 9, comm, &there, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    const gpu::Memory memory(Kind::kHost, kLarge);
    code = MPI_Recv(memory.at(0), kLarge, MPI_BYTE, 1, 8, comm, MPI_STATUS_IGNORE);
    expect(code == MPI_SUCCESS && memory.read() == content(7), "the message behind an ordinary one");
}

void between_groups(MPI_Comm between) {
    const gpu::Memory large(Kind::kDevice, kLarge);
    char small[50];
    if (rank == 1)
        MPI_Send(large.at(0), kLarge, MPI_BYTE, 0, 6, between);
    else
        expect(truncated::class_of(MPI_Recv(small, 50, MPI_BYTE, 0, 6, between, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE,
               "MPI_ERR_TRUNCATE between groups");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    MPI_Comm turned = MPI_COMM_NULL, alone = MPI_COMM_NULL, between = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
    MPI_Intercomm_create(alone, 0, MPI_COMM_WORLD, 1 - rank, 9, &between);
    every_way(MPI_COMM_WORLD, false);
    for (const Kind to : {Kind::kHost, Kind::kDevice})
        for (const bool wildcards : {false, true})
            in_order(MPI_COMM_WORLD, 2, wildcards, to);
    beside_another(MPI_COMM_WORLD, turned);
    between_groups(between);
    if (!mpi_test::over("ucx") && !mpi_test::over("cm"))
        for (const bool blocking : {true, false})
            behind_an_ordinary_message(MPI_COMM_WORLD, blocking);
    every_way(MPI_COMM_WORLD, true);  // last, since their senders never finish
    for (MPI_Comm* made : {&turned, &alone, &between})
        MPI_Comm_free(made);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
