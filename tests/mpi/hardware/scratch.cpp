// A call that needs intermediate memory takes as much of the device as it needs, and the program has it back
// afterwards: an exchange in place of 150 MiB on a device of 512 MiB and what NCCL takes (32 channels of 26 MiB), of
// which the program then allocates what is left.
// launch: -n 2 --gpus 2 -x VGPU_MEMORY=1344M
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr std::size_t kBytes = 150u << 20, kRest = 320u << 20;
int failures = 0;

void exchange(gpu::Memory& data, int rank, int size) {
    const std::size_t each = kBytes / static_cast<std::size_t>(size);
    std::vector<std::byte> content(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i)
        content[i] = static_cast<std::byte>(static_cast<std::size_t>(rank) * 101 + i / each * 7 + i % 251);
    data.write(content);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.address(), static_cast<int>(each), MPI_BYTE, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < kBytes; ++i) {
        const std::size_t at = static_cast<std::size_t>(rank) * each + i % each;  // where it was at its sender
        content[i] = static_cast<std::byte>(i / each * 101 + static_cast<std::size_t>(rank) * 7 + at % 251);
    }
    if (data.read() == content)
        return;
    std::fprintf(stderr, "FAILED: rank %d: the exchange in place\n", rank);
    ++failures;
}

}  // namespace

int main(int argc, char** argv) {
    int rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(rank % driver.devices);
    gpu::Memory data(gpu::Kind::kDevice, kBytes);
    for (int round = 0; round < 2; ++round) {
        exchange(data, rank, size);
        driver.synchronize();
        void* rest = nullptr;
        const int result = driver.call<int(void**, std::size_t)>("cuMemAlloc_v2")(&rest, kRest);
        if (result == 0) {
            driver.release(gpu::Kind::kDevice, rest);
            continue;
        }
        std::fprintf(stderr, "FAILED: rank %d: CUDA error %d for the %zu MiB that are the program's own\n", rank,
                     result, kRest >> 20);
        ++failures;
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
