// The memory of a receive is the program's from the call on that says that the receive is complete, and by
// MPI_Request_get_status that is before its request ends: nothing reads or writes it then any more, whatever ends the
// request. Receives of host memory that are looked at for what stands in for large device messages: of ordinary
// messages as long as that, and of large ones that are too long for them, whose sender finishes all the same.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "../gpu.hpp"
#include "truncated.hpp"

namespace {

constexpr int kEnvelope = 101, kLarge = 300000;
constexpr std::size_t kPages = 8192;
int failures = 0;

enum End { kFree, kWait, kTest, kWaitall, kWaitany, kWaitsome, kTestall, kTestany, kTestsome, kEnds };
constexpr const char* kNames[] = {"Request_free", "Wait",    "Test",    "Waitall", "Waitany",
                                  "Waitsome",     "Testall", "Testany", "Testsome"};
constexpr truncated::Completing kCompleting[] = {nullptr,
                                                 MPI_Wait,
                                                 truncated::test,
                                                 truncated::all,
                                                 truncated::any,
                                                 truncated::some,
                                                 truncated::test_all,
                                                 truncated::test_any,
                                                 truncated::test_some};

struct Case {
    bool large, persistent;
    int room;
    End end;
    std::string name() const {
        return std::string(persistent ? "Recv_init" : "Irecv") + " of " + std::to_string(room) + " bytes, of a " +
               (large ? "large" : "short") + " message, ended by MPI_" + kNames[end];
    }
};

void expect(bool right, const Case& now, const char* what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s: %s\n", now.name().c_str(), what);
    ++failures;
}

void expect_status(const MPI_Status& status, const Case& now, const char* what) {
    int count = 0, cancelled = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    MPI_Test_cancelled(&status, &cancelled);
    // MPI says of one without room for what stands in that just this was too long.
    const bool right = !now.large ? count == kEnvelope : now.room < kEnvelope || count == kLarge;
    expect(right && cancelled == 0 && status.MPI_SOURCE == 0 && status.MPI_TAG == 4, now, what);
}

void receive(const Case& now) {
    void* pages = mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Request request = MPI_REQUEST_NULL;
    (now.persistent ? MPI_Recv_init : MPI_Irecv)(pages, now.room, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &request);
    if (now.persistent)
        MPI_Start(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Status status;
    for (int complete = 0; complete == 0;)
        MPI_Request_get_status(request, &complete, &status);
    expect_status(status, now, "the status of MPI_Request_get_status");
    if (!now.large) {
        char wanted[kEnvelope];
        std::memset(wanted, now.end + 1, sizeof wanted);
        expect(std::memcmp(pages, wanted, sizeof wanted) == 0, now, "the data");
    }
    // The sender has been told by now, whatever this rank does next.
    MPI_Recv(nullptr, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mprotect(pages, kPages, PROT_NONE);
    if (now.end != kFree) {
        std::memset(&status, 0, sizeof status);
        int mpi_class = truncated::class_of(kCompleting[now.end](&request, &status));
        if (mpi_class == MPI_ERR_IN_STATUS)
            mpi_class = truncated::class_of(status.MPI_ERROR);
        expect(mpi_class == (now.large ? MPI_ERR_TRUNCATE : MPI_SUCCESS), now, "the error class");
        expect_status(status, now, "the status");
    }
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    munmap(pages, kPages);
}

void send(const Case& now) {
    const gpu::Memory large(gpu::Kind::kDevice, kLarge);
    char data[kEnvelope];
    std::memset(data, now.end + 1, sizeof data);
    MPI_Barrier(MPI_COMM_WORLD);
    if (now.large)
        MPI_Send(large.at(0), kLarge, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
    else
        MPI_Send(data, kEnvelope, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
    MPI_Send(nullptr, 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (const bool persistent : {false, true})
        for (const bool large : {false, true})
            for (const int room : {kEnvelope - 4, kEnvelope, 2000})
                for (int end = 0; end < kEnds; ++end) {
                    const Case now{large, persistent, room, static_cast<End>(end)};
                    if (room < kEnvelope && (!large || (persistent && end > kTest)))
                        continue;  // too long as well; an error that Open MPI 4.1 loses itself
                    rank == 0 ? send(now) : receive(now);
                }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
