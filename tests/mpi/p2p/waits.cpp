// Ways of waiting in which no operation of the library is on the program's mind, while a sender needs this process: its
// call has to end all the same.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kBytes = 1 << 20;
constexpr int kRounds = 20;

int expect(bool right, const char* what) {
    if (!right)
        std::fprintf(stderr, "FAILED: %s\n", what);
    return right ? 0 : 1;
}

// The receiver has found one large message, and asks again and again for another one, which is sent after a third.
int asks_again(int rank, bool matched) {
    const gpu::Memory found(gpu::Kind::kDevice, kBytes), awaited(gpu::Kind::kDevice, kBytes);
    if (rank == 0) {
        MPI_Request request;
        MPI_Isend(found.at(0), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Ssend(awaited.at(0), kBytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Send(nullptr, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return 0;
    }
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(awaited.at(0), kBytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
    MPI_Probe(0, 1, MPI_COMM_WORLD, &status);
    int bytes = 0, there = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    MPI_Message message = MPI_MESSAGE_NULL;
    while (!there)
        if (matched)
            MPI_Improbe(0, 3, MPI_COMM_WORLD, &there, &message, &status);
        else
            MPI_Iprobe(0, 3, MPI_COMM_WORLD, &there, &status);
    if (matched)
        MPI_Mrecv(nullptr, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    else
        MPI_Recv(nullptr, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Recv(found.at(0), kBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return expect(bytes == kBytes, "the length that MPI_Probe says");
}

// The receive that a large message meets has room for an envelope, not for the message. The receiver waits for the next
// message first, or for both, and for that the sender must get through.
int completes_later(int rank, bool both) {
    const gpu::Memory memory(gpu::Kind::kDevice, kBytes);
    if (rank == 0) {
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (both)
            usleep(20000);
        MPI_Ssend(memory.at(0), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Send(nullptr, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        return 0;
    }
    std::vector<char> room(2000);
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int mpi_class = MPI_SUCCESS;
    MPI_Irecv(room.data(), static_cast<int>(room.size()), MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[0]);
    if (!both) {
        MPI_Send(nullptr, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        MPI_Recv(nullptr, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), &mpi_class);
        return expect(mpi_class == MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE for a message that is too long");
    }
    // Another operation is under way, and the sender begins when this rank waits already.
    MPI_Irecv(memory.at(0), kBytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Issend(nullptr, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &requests[2]);
    const int code = MPI_Waitall(3, requests, statuses);
    MPI_Error_class(statuses[0].MPI_ERROR, &mpi_class);
    return expect(code == MPI_ERR_IN_STATUS && mpi_class == MPI_ERR_TRUNCATE && statuses[1].MPI_ERROR == MPI_SUCCESS &&
                      statuses[2].MPI_ERROR == MPI_SUCCESS,
                  "MPI_ERR_TRUNCATE in the status of a message that is too long");
}

// A receive of a large message and one of a small message are under way, and the sender does nothing for the former
// until the receiver has completed the latter: a call that waits for any of them does not wait for the large one.
int waits_for_any(int rank, bool some) {
    const gpu::Memory memory(gpu::Kind::kDevice, std::vector<std::byte>(kBytes, std::byte{7}));
    std::string path = "/tmp/switchyard-waits-XXXXXX";
    if (rank == 1)
        close(mkstemp(path.data()));
    MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 1, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Request request;
        const int small = 5;
        bool gone = false;
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Isend(memory.at(0), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Send(&small, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        for (int tries = 0; tries < 1000 && !gone; ++tries) {
            usleep(10000);
            gone = access(path.c_str(), F_OK) != 0;
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return expect(gone, "MPI_Waitany and MPI_Waitsome return when one message is there");
    }
    std::vector<char> large(kBytes);
    int small = 0, completed = 0;
    MPI_Request requests[2];
    MPI_Irecv(large.data(), kBytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&small, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(nullptr, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    while (completed < 2) {
        int indices[2] = {}, number = 1;
        MPI_Status statuses[2];
        if (some)
            MPI_Waitsome(2, requests, &number, indices, statuses);
        else
            MPI_Waitany(2, requests, indices, statuses);
        for (int k = 0; k < number; ++k)
            if (statuses[k].MPI_TAG != indices[k] + 1)
                return expect(false, "the tag of the message that has come");
        completed += number;
        unlink(path.c_str());
    }
    return expect(small == 5 && large.front() == 7 && large.back() == 7, "the data of both messages");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0, failures = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (int round = 0; round < kRounds; ++round)
        failures += asks_again(rank, round % 2 == 1) + completes_later(rank, round % 2 == 1) +
                    waits_for_any(rank, round % 2 == 1);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
