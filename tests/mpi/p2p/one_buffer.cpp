// Many receives at once into one buffer in host memory, of messages from device memory. MPI does not allow it (MPI 4.0
// section 3.7.2), and what the buffer has in the end is nobody's affair; but benchmarks that people judge an MPI by do
// it (OSU's bandwidth tests, HPC Challenge's), and with host memory every receive completes. So it is here: each one
// completes with its own message's status, whatever the others write into the memory that it waits in.
// The first window of a process has ways of its own: each way is the first one once.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x FIRST_WAY=1
// launch: -n 2 --gpus 2 -x FIRST_WAY=2
// launch: -n 2 --gpus 2 -x FIRST_WAY=3
// launch: -n 2 --gpus 2 -x FIRST_WAY=4
// launch: -n 2 --gpus 2 -x FIRST_WAY=5
// launch: -n 2 --gpus 2 -x FIRST_WAY=6
// launch: -n 2 --gpus 2 -x FIRST_WAY=7
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0 -x SWITCHYARD_P2P_CHUNK=65536
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../gpu.hpp"

namespace {

using gpu::Kind;

enum Way { kIrecv, kReversed, kPersistent, kStrided, kWithMrecv, kFromBoth, kOneTag, kTwoComms, kWays };
constexpr const char* kNames[] = {"MPI_Irecv",
                                  "MPI_Irecv, the messages in reverse order",
                                  "MPI_Recv_init",
                                  "MPI_Irecv of a type with gaps",
                                  "MPI_Irecv and MPI_Imrecv",
                                  "MPI_Irecv, from device and host memory",
                                  "MPI_Irecv, all of one tag and length",
                                  "MPI_Irecv on two communicators, all of one tag"};

constexpr int kWindow = 64, kRounds = 10, kMost = 1 << 17;
// Not all of one size, so that a status tells them apart; some are as long as what stands in for a large message.
int bytes_of(Way way, int message) {
    if (way == kOneTag)
        return kMost;
    if (way == kTwoComms)
        return kMost - 1024 * (message % 2);
    return message % 8 == 5 ? 101 : kMost - 1024 * (message % 16);
}
int tag_of(Way way, int message) {
    return way == kOneTag || way == kTwoComms ? kWindow / 2 : message;
}
MPI_Comm second = MPI_COMM_NULL;
MPI_Comm comm_of(Way way, int message) {
    return way == kTwoComms && message % 2 == 1 ? second : MPI_COMM_WORLD;
}

int failures = 0;

void expect(Way way, int message, bool right, const char* what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s, receive %d: %s\n", kNames[way], message, what);
    ++failures;
}

void send(Way way, const gpu::Memory& memory, const gpu::Memory& host) {
    std::vector<MPI_Request> requests(kWindow, MPI_REQUEST_NULL);
    for (int i = 0; i < kWindow; ++i) {
        // What comes first on the second communicator is received first on MPI_COMM_WORLD.
        const int message = way == kReversed ? kWindow - 1 - i : way == kTwoComms ? i ^ 1 : i;
        const gpu::Memory& from = way == kFromBoth && message % 3 == 0 ? host : memory;
        MPI_Isend(from.address(), bytes_of(way, message), MPI_BYTE, 1, tag_of(way, message), comm_of(way, message),
                  &requests[i]);
    }
    MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
}

void check(Way way, int message, const MPI_Status& status) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    expect(way, message, status.MPI_SOURCE == 0 && status.MPI_TAG == tag_of(way, message), "source or tag");
    expect(way, message, bytes == bytes_of(way, message), "the message's length");
}

void begin(Way way, int message, std::byte* memory, MPI_Datatype strided, MPI_Request& request) {
    MPI_Message probed = MPI_MESSAGE_NULL;
    switch (way) {
        case kPersistent:
            MPI_Recv_init(memory, kMost, MPI_BYTE, 0, tag_of(way, message), MPI_COMM_WORLD, &request);
            MPI_Start(&request);
            return;
        case kStrided:
            MPI_Irecv(memory, kMost / 1024, strided, 0, tag_of(way, message), MPI_COMM_WORLD, &request);
            return;
        case kWithMrecv:
            if (message % 2 == 0)
                break;
            MPI_Mprobe(0, message, MPI_COMM_WORLD, &probed, MPI_STATUS_IGNORE);
            MPI_Imrecv(memory, kMost, MPI_BYTE, &probed, &request);
            return;
        default:
            break;
    }
    MPI_Irecv(memory, kMost, MPI_BYTE, 0, tag_of(way, message), comm_of(way, message), &request);
}

void receive(Way way, std::vector<std::byte>& memory, MPI_Datatype strided) {
    std::vector<MPI_Request> requests(kWindow, MPI_REQUEST_NULL);
    std::vector<MPI_Status> statuses(kWindow);
    for (int i = 0; i < kWindow; ++i)
        begin(way, i, memory.data(), strided, requests[i]);
    MPI_Waitall(kWindow, requests.data(), statuses.data());
    for (int i = 0; i < kWindow; ++i)
        check(way, i, statuses[i]);
    for (MPI_Request& request : requests)
        if (request != MPI_REQUEST_NULL)
            MPI_Request_free(&request);
}

// The last message alone in the memory: nothing of the others' receives is written any more.
void receive_alone(Way way, std::vector<std::byte>& memory) {
    MPI_Recv(memory.data(), kMost, MPI_BYTE, 0, kWindow, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    bool right = true;
    for (int i = 0; i < kMost; ++i)
        right = right && memory[static_cast<std::size_t>(i)] == std::byte{0x5a};
    expect(way, kWindow, right, "data");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const std::vector<std::byte> content(kMost, std::byte{0x5a});
    const gpu::Memory sent(Kind::kDevice, content), host(Kind::kHost, content);
    const char* first = std::getenv("FIRST_WAY");
    std::vector<std::byte> received(2 * kMost);
    MPI_Datatype vector = MPI_DATATYPE_NULL;
    MPI_Type_vector(512, 2, 4, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    for (int round = 0; round < kRounds; ++round)
        for (int i = 0; i < kWays; ++i) {
            const Way way = static_cast<Way>((i + (first != nullptr ? std::atoi(first) : 0)) % kWays);
            if (rank == 0) {
                send(way, sent, host);
                MPI_Send(sent.address(), kMost, MPI_BYTE, 1, kWindow, MPI_COMM_WORLD);
            } else {
                receive(way, received, vector);
                receive_alone(way, received);
            }
        }
    MPI_Type_free(&vector);
    MPI_Comm_free(&second);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d receives into one buffer, %d failures\n", kWindow * kRounds * kWays, failures);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
