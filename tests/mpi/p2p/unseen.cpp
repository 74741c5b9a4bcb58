// Receives into plain host memory of which the program wants no status: large messages from device memory, whole and
// truncated to every length around an envelope's, and then short ones into the same memory, in which a truncated
// envelope may have been left. The content of each against arithmetic.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_THRESHOLD=1K -x VGPU_JITTER=3
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

using gpu::Kind;
using Bytes = std::vector<std::byte>;

constexpr int kLarge = 100000;
constexpr int kRooms[] = {0, 1, 4, 8, 16, 24, 92, 93, 100, 101, 102, 200, 5000, kLarge - 1, kLarge, kLarge + 8};
constexpr int kShort[] = {0, 1, 4, 8, 24, 100, 101, 102};
constexpr int kTag = 7;

// The receiver's, of which nothing is mapped: its wrapper need not ask the driver.
alignas(16) std::byte memory[kLarge + 64];

enum Way { kRecv, kSendrecv, kReplace, kAnySource, kAnyTag, kWait, kWaitall, kTest, kPersistent, kWays };
constexpr const char* kNames[] = {
    "MPI_Recv",  "MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Recv from any source",  "MPI_Recv with any tag",
    "MPI_Irecv", "MPI_Waitall",  "MPI_Testany",          "MPI_Recv_init, MPI_Waitany"};

int failures = 0;

Bytes content(unsigned which, std::size_t bytes) {
    Bytes all(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        all[i] = static_cast<std::byte>((i + 1 + which) * 2654435761u >> 13);
    return all;
}

void expect(bool right, Way way, int room, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s with room for %d bytes: %s\n", kNames[way], room, what.c_str());
    ++failures;
}

int mpi_class(int code) {
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    return found;
}

int receive_later(Way way, int room) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0, index = 0, code = MPI_SUCCESS;
    if (way == kPersistent) {
        MPI_Recv_init(memory, room, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        code = MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
        if (request != MPI_REQUEST_NULL)
            MPI_Request_free(&request);
        return code;
    }
    MPI_Irecv(memory, room, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
    if (way == kWait)
        return MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (way == kTest) {
        while (done == 0 && code == MPI_SUCCESS)
            code = MPI_Testany(1, &request, &index, &done, MPI_STATUS_IGNORE);
        return code;
    }
    MPI_Status status{};
    code = MPI_Waitall(1, &request, &status);
    return code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : code;
}

int receive(Way way, int room) {
    // What is sent the other way: nothing, or as much as is replaced, which nobody receives but MPI_PROC_NULL.
    switch (way) {
        case kSendrecv:
            return MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, memory, room, MPI_BYTE, 0, kTag, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE);
        case kReplace:
            return MPI_Sendrecv_replace(memory, room, MPI_BYTE, MPI_PROC_NULL, 0, 0, kTag, MPI_COMM_WORLD,
                                        MPI_STATUS_IGNORE);
        case kAnySource:
            return MPI_Recv(memory, room, MPI_BYTE, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        case kAnyTag:
            return MPI_Recv(memory, room, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        case kWait:
        case kWaitall:
        case kTest:
        case kPersistent:
            return receive_later(way, room);
        default:
            return MPI_Recv(memory, room, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void expect_data(Way way, int room, const Bytes& sent, const std::string& what) {
    expect(std::equal(sent.begin(), sent.end(), memory), way, room, what);
}

unsigned number(Way way, int room, int bytes) {
    return static_cast<unsigned>(way * 1000003 + room * 101 + bytes);
}

void send(Way way, int room) {
    const gpu::Memory large(Kind::kDevice, content(number(way, room, kLarge), kLarge));
    MPI_Send(large.at(0), kLarge, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
    for (const int bytes : kShort) {
        const Bytes data = content(number(way, room, bytes), static_cast<std::size_t>(bytes));
        MPI_Send(data.data(), bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
    }
}

void receive_all(Way way, int room) {
    const bool whole = room >= kLarge;
    const int code = receive(way, room);
    expect(mpi_class(code) == (whole ? MPI_SUCCESS : MPI_ERR_TRUNCATE), way, room, "the error class of the large one");
    if (whole && code == MPI_SUCCESS)
        expect_data(way, room, content(number(way, room, kLarge), kLarge), "the large one's data");
    for (const int bytes : kShort) {
        const std::string which = "a message of " + std::to_string(bytes) + " bytes after it";
        const Bytes before(std::begin(memory), std::end(memory));
        expect(receive(way, kLarge) == MPI_SUCCESS, way, room, which);
        expect_data(way, room, content(number(way, room, bytes), static_cast<std::size_t>(bytes)), which + ": data");
        expect(std::equal(before.begin() + bytes, before.end(), memory + bytes), way, room, which + ": memory behind");
        std::copy(before.begin(), before.end(), memory);  // what the large one has left stays
    }
}

// A receive with room for one byte less than an envelope leaves its other 100 bytes in memory. With each possible last
// byte behind them, a message of no bytes into the same memory must not be taken for the envelope.
void cut_off(int rank, bool blocking) {
    constexpr int kRoom = 100, kLastBytes = 256;
    if (rank == 0) {
        const gpu::Memory large(Kind::kDevice, content(0, kLarge));
        MPI_Send(large.at(0), kLarge, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
        for (int last = 0; last < kLastBytes; ++last)
            MPI_Send(nullptr, 0, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
        return;
    }
    int code = MPI_SUCCESS;
    if (blocking) {
        code = receive(kRecv, kRoom);
    } else {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(memory, kRoom, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    expect(mpi_class(code) == MPI_ERR_TRUNCATE, kRecv, kRoom, "the error class of the large one");
    for (int last = 0; last < kLastBytes; ++last) {
        memory[kRoom] = static_cast<std::byte>(last);
        expect(receive(kRecv, kLarge) == MPI_SUCCESS, kRecv, kRoom,
               "a message of no bytes, with " + std::to_string(last) + " behind the envelope's first bytes");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (int way = 0; way < kWays; ++way)
        for (const int room : kRooms) {
            if (rank == 0)
                send(static_cast<Way>(way), room);
            else
                receive_all(static_cast<Way>(way), room);
        }
    for (const bool blocking : {true, false})
        cut_off(rank, blocking);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
