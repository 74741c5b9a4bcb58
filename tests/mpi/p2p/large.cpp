// One message of more than 2^31 bytes: over NCCL, and in chunks into host memory as elements of a derived type. Needs
// about 5 GiB of memory, and is skipped where that is not free.
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -- nccl
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_CHUNK=4M -- host
// test-timeout: 240
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "buffer.hpp"

namespace {

constexpr std::size_t kPiece = std::size_t{8} << 20;
constexpr std::size_t kBytes = (std::size_t{1} << 31) + 4120;
constexpr int kCount = kBytes / sizeof(long long);
static_assert(kBytes % sizeof(long long) == 0 && kCount % 27 == 0);
constexpr std::size_t kGuard = 4096;
constexpr long long kWanted = 6LL << 30;

long long memory() {
    return static_cast<long long>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

// The bytes from `at` on, as the sender has them; the guard behind the end is of another seed.
std::vector<std::byte> piece(std::size_t at, std::uint64_t salt) {
    return p2p_test::noise(salt + at, std::min(kPiece, kBytes - at));
}

void copy(const gpu::Memory& memory, void* to, const void* from, std::size_t bytes) {
    if (memory.kind() == gpu::Kind::kHost)
        std::memcpy(to, from, bytes);
    else
        gpu::Driver::get().copy(to, from, bytes);
}

// Messages before it, so that the two ranks have an NCCL communicator.
void warm_up(int rank) {
    constexpr int kCount = 1 << 20;
    const gpu::Memory memory(gpu::Kind::kDevice, kCount);
    for (int i = 0; i < 40; ++i) {
        if (rank == 0)
            MPI_Send(memory.at(0), kCount, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        else
            MPI_Recv(memory.at(0), kCount, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void send(MPI_Datatype type, int count) {
    const gpu::Memory memory(gpu::Kind::kDevice, kBytes);
    for (std::size_t at = 0; at < kBytes; at += kPiece) {
        const std::vector<std::byte> content = piece(at, 1);
        copy(memory, memory.at(at), content.data(), content.size());
    }
    MPI_Send(memory.at(0), count, type, 1, 3, MPI_COMM_WORLD);
}

int receive(gpu::Kind kind, MPI_Datatype type, int count) {
    const gpu::Memory memory(kind, kBytes + kGuard);
    const std::vector<std::byte> guard = p2p_test::noise(77, kGuard);
    copy(memory, memory.at(kBytes), guard.data(), kGuard);
    MPI_Status status;
    int failed = 0, got = 0;
    MPI_Count elements = 0;
    MPI_Recv(memory.at(0), count, type, 0, 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &got);
    MPI_Get_elements_x(&status, type, &elements);
    if (got != count || elements != kCount) {
        std::fprintf(stderr, "a count of %d and %lld elements\n", got, static_cast<long long>(elements));
        ++failed;
    }
    for (std::size_t at = 0; at < kBytes && failed == 0; at += kPiece) {
        const std::vector<std::byte> expected = piece(at, 1);
        std::vector<std::byte> found(expected.size());
        copy(memory, found.data(), memory.at(at), found.size());
        if (found != expected) {
            std::fprintf(stderr, "wrong data between bytes %zu and %zu of %s memory\n", at, at + found.size(),
                         gpu::name(kind));
            ++failed;
        }
    }
    std::vector<std::byte> behind(kGuard);
    copy(memory, behind.data(), memory.at(kBytes), kGuard);
    if (behind != guard) {
        std::fprintf(stderr, "bytes behind the message have changed\n");
        ++failed;
    }
    return failed;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, failed = 0, enough = memory() >= kWanted;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (enough == 0) {
        if (rank == 0)
            std::printf("too little memory: %lld MiB are free\n", memory() >> 20);
        MPI_Finalize();
        return 77;
    }
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const std::string how = argc > 1 ? argv[1] : "nccl";
    MPI_Datatype row;  // the host's receive has a type of its own, of the same signature
    MPI_Type_contiguous(27, MPI_LONG_LONG, &row);
    MPI_Type_commit(&row);
    const bool rows = how == "host";
    warm_up(rank);
    if (rank == 0)
        send(MPI_LONG_LONG, kCount);
    else
        failed = receive(how == "host" ? gpu::Kind::kHost : gpu::Kind::kDevice, rows ? row : MPI_LONG_LONG,
                         rows ? kCount / 27 : kCount);
    MPI_Type_free(&row);
    MPI_Finalize();
    return failed > 0 ? 1 : 0;
}
