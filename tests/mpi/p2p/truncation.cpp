// Messages that are too long for their receives, among others that are not: MPI_ERR_TRUNCATE for the receiver, a sender
// that finishes, and no byte written beyond a receive's memory, whatever the MPI does with such a message in host
// memory (Open MPI's "ob1" writes all of it where a transport writes into the receiver's memory itself, as TCP does
// here).
// launch: -n 2 --gpus 2 --mca btl tcp,self
// launch: -n 2 --gpus 2 --mca btl tcp,self -x SWITCHYARD_NCCL=0
// launch: -n 2 --gpus 2
// test-timeout: 60
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

using Bytes = std::vector<std::byte>;
using gpu::Kind;

constexpr std::size_t kRooms[] = {96, 40000, 65536, 300000, 1 << 20};
constexpr std::size_t kGuard = 256, kBeyond = 700000;
constexpr int kMessages = 24;
int failures = 0;

void expect(bool right, const char* what, Kind from, Kind to, std::size_t room) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s, %s to %s memory with room for %zu bytes\n", what, gpu::name(from), gpu::name(to),
                 room);
    ++failures;
}

bool is_long(int message) {
    return message % 2 == 1;
}
Bytes content(int message, std::size_t bytes) {
    Bytes all(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        all[i] = static_cast<std::byte>((i + 1) * 2654435761u >> 13 ^ static_cast<unsigned>(message));
    return all;
}

void send(Kind from, std::size_t room) {
    std::vector<gpu::Memory> memories;
    std::vector<MPI_Request> requests(kMessages);
    for (int m = 0; m < kMessages; ++m)
        memories.emplace_back(from, content(m, is_long(m) ? room + kBeyond : room));
    MPI_Barrier(MPI_COMM_WORLD);  // the receives are there
    for (int m = 0; m < kMessages; ++m)
        MPI_Isend(memories[static_cast<std::size_t>(m)].at(0),
                  static_cast<int>(memories[static_cast<std::size_t>(m)].size()), MPI_BYTE, 1, m, MPI_COMM_WORLD,
                  &requests[static_cast<std::size_t>(m)]);
    MPI_Waitall(kMessages, requests.data(), MPI_STATUSES_IGNORE);
}

void receive(Kind from, Kind to, std::size_t room) {
    const Bytes before(kGuard + room + kGuard, std::byte{0x5a});
    std::vector<gpu::Memory> memories;
    std::vector<MPI_Request> requests(kMessages);
    for (int m = 0; m < kMessages; ++m)
        memories.emplace_back(to, before);
    for (int m = 0; m < kMessages; ++m)
        MPI_Irecv(memories[static_cast<std::size_t>(m)].at(kGuard), static_cast<int>(room), MPI_BYTE, 0, m,
                  MPI_COMM_WORLD, &requests[static_cast<std::size_t>(m)]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int m = 0; m < kMessages; ++m) {
        int mpi_class = MPI_SUCCESS;
        // One by one: MPI_Waitall may leave others pending when one has failed (MPI 4.0 section 3.7.5).
        MPI_Error_class(MPI_Wait(&requests[static_cast<std::size_t>(m)], MPI_STATUS_IGNORE), &mpi_class);
        expect(mpi_class == (is_long(m) ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "the error class", from, to, room);
        Bytes now = memories[static_cast<std::size_t>(m)].read();
        const auto data = now.begin() + kGuard, end = data + static_cast<std::ptrdiff_t>(room);
        if (!is_long(m))
            expect(Bytes(data, end) == content(m, room), "the data of a message beside longer ones", from, to, room);
        std::copy(before.begin() + kGuard, before.end() - kGuard, data);
        expect(now == before, "memory around a receive", from, to, room);
    }
}

// MPI_Waitall says of each receive by itself what has failed, in words that have its tag.
void receive_all(std::size_t room) {
    std::vector<gpu::Memory> memories;
    std::vector<MPI_Request> requests(kMessages);
    std::vector<MPI_Status> statuses(kMessages);
    for (int m = 0; m < kMessages; ++m) {
        memories.emplace_back(Kind::kDevice, Bytes(room));
        MPI_Irecv(memories.back().at(0), static_cast<int>(room), MPI_BYTE, 0, m, MPI_COMM_WORLD,
                  &requests[static_cast<std::size_t>(m)]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const int code = MPI_Waitall(kMessages, requests.data(), statuses.data());
    expect(code == MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS", Kind::kDevice, Kind::kDevice, room);
    for (int m = 0; m < kMessages; ++m) {
        int mpi_class = MPI_SUCCESS, length = 0;
        char text[MPI_MAX_ERROR_STRING] = "";
        const int error = statuses[static_cast<std::size_t>(m)].MPI_ERROR;
        MPI_Error_class(error, &mpi_class);
        MPI_Error_string(error, text, &length);
        const std::string tag = "tag " + std::to_string(m) + ":";
        const bool right = is_long(m)
                               ? mpi_class == MPI_ERR_TRUNCATE && std::string(text).find(tag) != std::string::npos
                               : error == MPI_SUCCESS;
        expect(right, text, Kind::kDevice, Kind::kDevice, room);
    }
}

// Two messages of one tag, of which the later one, on a second communicator, is received first and with too little
// room: its send completes, and that of the other one has its own receive.
void one_tag_on_two_communicators(int rank, std::size_t bytes) {
    MPI_Comm second = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    for (const Kind to : {Kind::kHost, Kind::kDevice})
        for (const std::size_t room : {std::size_t{8}, std::size_t{96}, std::size_t{40000}}) {
            gpu::Memory first(rank == 0 ? Kind::kDevice : to, rank == 0 ? content(0, bytes) : Bytes(bytes));
            gpu::Memory later(rank == 0 ? Kind::kDevice : to, rank == 0 ? content(1, bytes) : Bytes(bytes));
            if (rank == 0) {
                MPI_Request requests[2];
                MPI_Isend(first.at(0), static_cast<int>(bytes), MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[0]);
                MPI_Isend(later.at(0), static_cast<int>(bytes), MPI_BYTE, 1, 0, second, &requests[1]);
                expect(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS, "the truncated send", Kind::kDevice,
                       to, room);
                MPI_Barrier(MPI_COMM_WORLD);
                expect(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS, "the other send", Kind::kDevice, to,
                       room);
                continue;
            }
            int mpi_class = MPI_SUCCESS;
            MPI_Error_class(MPI_Recv(later.at(0), static_cast<int>(room), MPI_BYTE, 0, 0, second, MPI_STATUS_IGNORE),
                            &mpi_class);
            expect(mpi_class == MPI_ERR_TRUNCATE, "the error class", Kind::kDevice, to, room);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Recv(first.at(0), static_cast<int>(bytes), MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(first.read() == content(0, bytes), "the data of the other message", Kind::kDevice, to, room);
        }
    MPI_Comm_free(&second);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (const Kind from : gpu::kKinds)
        for (const Kind to : gpu::kKinds) {
            if (from != Kind::kDevice && to != Kind::kDevice)
                continue;  // MPI's own, which may write beyond
            for (const std::size_t room : kRooms)
                if (rank == 0)
                    send(from, room);
                else
                    receive(from, to, room);
        }
    constexpr std::size_t kLarge = 300000;
    if (rank == 0)
        send(Kind::kDevice, kLarge);
    else
        receive_all(kLarge);
    one_tag_on_two_communicators(rank, kLarge);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
