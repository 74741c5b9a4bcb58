// Operands larger than the pool of page-locked memory, in one piece and in many: what arrives is what was sent.
// clang-format off
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL=0 -x SWITCHYARD_PINNED_POOL=1048576
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0 -x SWITCHYARD_PINNED_POOL=1048576 -x VGPU_JITTER=3
// clang-format on
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr std::size_t kBytes = std::size_t{41} << 20;  // several of the pieces in which pageable memory is copied
constexpr std::size_t kRow = 24000, kPitch = 32768;
constexpr int kRows = 1000;

std::byte value(std::size_t i, int salt) {
    return static_cast<std::byte>((i * 2654435761u + static_cast<unsigned>(salt)) >> 11);
}

std::vector<std::byte> pattern(int salt, std::size_t bytes) {
    std::vector<std::byte> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        content[i] = value(i, salt);
    return content;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, failed = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const int peer = 1 - rank;

    {
        gpu::Memory send(gpu::Kind::kDevice, pattern(rank, kBytes)), recv(gpu::Kind::kManaged, pattern(9, kBytes));
        MPI_Sendrecv(send.at(0), kBytes, MPI_BYTE, peer, 0, recv.at(0), kBytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        failed += recv.read() != pattern(peer, kBytes);
    }
    {
        MPI_Datatype rows;
        MPI_Type_create_hvector(kRows, kRow, kPitch, MPI_BYTE, &rows);
        MPI_Type_commit(&rows);
        gpu::Memory both(gpu::Kind::kDevice, pattern(rank, kPitch * kRows));
        MPI_Bcast(both.at(0), 1, rows, 1, MPI_COMM_WORLD);
        const std::vector<std::byte> got = both.read();
        for (std::size_t i = 0; i < got.size() && failed == 0; ++i)
            failed += got[i] != value(i, i % kPitch < kRow ? 1 : rank);
        MPI_Type_free(&rows);
    }
    if (failed > 0)
        std::fprintf(stderr, "rank %d: wrong data\n", rank);
    MPI_Finalize();
    return failed > 0 ? 1 : 0;
}
