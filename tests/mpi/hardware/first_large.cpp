// What the first large collective of a program does besides its own work, for warm.test, which counts the driver's and
// NCCL's calls between two marks in the virtual GPUs' log: allocations of kMark bytes.
//   first_large SMALL [RANKS]   SMALL is the call on 8 bytes of device memory that comes before: none, message,
//                               allreduce, irecv. RANKS: so many choose their device before MPI_Init.
// Prints "RANK PID", and whether libnccl.so.2 was loaded when MPI_Init returned. Exit 1 where the sum is wrong.
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr std::size_t kMark = 12345;
constexpr int kCount = 1 << 18;

std::vector<std::byte> doubles(std::size_t count, double value) {
    const std::vector<double> values(count, value);
    std::vector<std::byte> bytes(count * sizeof(double));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

void mark() {
    MPI_Barrier(MPI_COMM_WORLD);
    const gpu::Memory memory(gpu::Kind::kDevice, kMark);
}

void use_device(int rank) {
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
}

void call_small(std::string_view which, int rank) {
    const gpu::Memory one(gpu::Kind::kDevice, doubles(1, 1));
    if (which == "allreduce")
        MPI_Allreduce(MPI_IN_PLACE, one.address(), 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (which == "message" && rank == 0)
        MPI_Send(one.address(), 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    if (which == "message" && rank == 1)
        MPI_Recv(one.address(), 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (which == "irecv") {
        MPI_Request requests[2];
        const gpu::Memory other(gpu::Kind::kDevice, doubles(1, 0));
        MPI_Irecv(other.address(), 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(one.address(), 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view small = argc > 1 ? argv[1] : "none";
    const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    const int expected = local != nullptr ? std::atoi(local) : 0;
    const bool before = argc > 2 && expected < std::atoi(argv[2]);
    if (before)
        use_device(expected);
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const bool loaded = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
    std::printf("%d %d\nnccl %d\n", rank, static_cast<int>(getpid()), loaded ? 1 : 0);
    if (!before)
        use_device(rank);
    gpu::Memory memory(gpu::Kind::kDevice, doubles(kCount, rank + 1));
    if (small != "none")
        call_small(small, rank);
    mark();
    MPI_Allreduce(MPI_IN_PLACE, memory.address(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    mark();
    const bool right = memory.read() == doubles(kCount, size * (size + 1) / 2.);
    MPI_Finalize();
    return right ? 0 : 1;
}
