// Receives into device memory that wait for their messages need as much address space as they may receive, and no more
// than a little besides. Where the process may have no more, a receive fails by MPI_ERR_NO_MEM and says so; those that
// are there go on, and what they leave is there for others.
// launch: -n 2 --gpus 2
// test-timeout: 60
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "truncated.hpp"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kRoom = 65 << 20, kPending = 16, kMore = 4;
int failures = 0;

void expect(bool right, const char* what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s\n", what);
    ++failures;
}

std::size_t in_use() {
    unsigned long pages = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1)
        std::_Exit(99);
    std::fclose(file);
    return pages * 4096;
}

void allow_more(std::size_t bytes) {
    const rlim_t all = in_use() + bytes;
    const rlimit limit{all, all};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        std::_Exit(99);
}

void receive_one(const gpu::Memory& memory, int bytes, int tag) {
    MPI_Recv(memory.at(0), bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::byte first{};
    gpu::Driver::get().copy(&first, memory.at(0), 1);
    expect(first == std::byte(tag), "the data of a message");
}

void receive() {
    const gpu::Memory memory(gpu::Kind::kDevice, static_cast<std::size_t>(kRoom));
    const gpu::Memory larger(gpu::Kind::kDevice, 4 * static_cast<std::size_t>(kRoom));
    allow_more(kPending * static_cast<std::size_t>(kRoom) + 128 * kMiB);
    std::vector<MPI_Request> requests(kPending + kMore);
    int tag = 100;
    for (MPI_Request& request : requests)
        MPI_Irecv(memory.at(0), kRoom, MPI_BYTE, 0, tag++, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    receive_one(memory, 1000, 1);
    int without = 0;
    for (int i = 0; i < kPending + kMore; ++i) {
        MPI_Cancel(&requests[static_cast<std::size_t>(i)]);
        const int code = MPI_Wait(&requests[static_cast<std::size_t>(i)], MPI_STATUS_IGNORE);
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(code, text, &length);
        if (i < kPending)
            expect(code == MPI_SUCCESS, text);
        else if (code != MPI_SUCCESS) {
            ++without;
            expect(truncated::class_of(code) == MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM");
            expect(std::string(text).find("68157440 bytes") != std::string::npos &&
                       std::string(text).find("ulimit -v") != std::string::npos,
                   text);
        }
    }
    expect(without != 0, "no receive fails, whatever the process may have");
    MPI_Barrier(MPI_COMM_WORLD);
    receive_one(larger, 4 * kRoom, 2);
}

void send() {
    const gpu::Memory one(gpu::Kind::kDevice, std::vector<std::byte>(1000, std::byte{1}));
    const gpu::Memory two(gpu::Kind::kDevice,
                          std::vector<std::byte>(4 * static_cast<std::size_t>(kRoom), std::byte{2}));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(one.at(0), 1000, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(two.at(0), 4 * kRoom, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank);
    rank == 0 ? send() : receive();
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
