// Collectives of a job in which only some ranks have a GPU driver: those use device memory, the others host memory, and
// every result is that of arithmetic. collectives.test runs it.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

int rank = 0, size = 0, failures = 0;
gpu::Kind mine = gpu::Kind::kHost;

std::vector<std::byte> ints(int count, int value) {
    const std::vector<int> values(static_cast<std::size_t>(count), value);
    std::vector<std::byte> bytes(values.size() * sizeof(int));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

void expect(bool good, const char* what, int count) {
    if (good)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d (%s memory): %s of %d integers\n", rank, gpu::name(mine), what, count);
}

void collectives(int count) {
    const gpu::Memory send(mine, ints(count, rank + 1)), sum(mine, ints(count, 0)), all(mine, ints(count * size, 0));
    MPI_Allreduce(send.at(0), sum.at(0), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum.read() == ints(count, size * (size + 1) / 2), "MPI_Allreduce", count);
    MPI_Allgather(send.at(0), count, MPI_INT, all.at(0), count, MPI_INT, MPI_COMM_WORLD);
    std::vector<std::byte> gathered;
    for (int r = 0; r < size; ++r) {
        const std::vector<std::byte> block = ints(count, r + 1);
        gathered.insert(gathered.end(), block.begin(), block.end());
    }
    expect(all.read() == gathered, "MPI_Allgather", count);
    for (int root = 0; root < size; ++root) {
        const gpu::Memory data(mine, ints(count, rank == root ? root + 10 : 0));
        MPI_Bcast(data.at(0), count, MPI_INT, root, MPI_COMM_WORLD);
        expect(data.read() == ints(count, root + 10), "MPI_Bcast", count);
        MPI_Reduce(send.at(0), data.at(0), count, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD);
        expect(data.read() == ints(count, rank == root ? size : root + 10), "MPI_Reduce", count);
    }
}

// From each rank to the next, so that every mix of ends occurs.
void messages(int count) {
    const gpu::Memory send(mine, ints(count, rank + 1)), recv(mine, ints(count, 0));
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Sendrecv(send.at(0), count, MPI_INT, next, 1, recv.at(0), count, MPI_INT, last, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect(recv.read() == ints(count, last + 1), "MPI_Sendrecv", count);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) {
        mine = gpu::Kind::kDevice;
        gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    }
    const int here = mine == gpu::Kind::kDevice ? 1 : 0;
    int drivers = 0;
    MPI_Allreduce(&here, &drivers, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (drivers == 0 || drivers == size) {
        std::fprintf(stderr, "%d of %d ranks have a driver: nothing is mixed\n", drivers, size);
        failures = 1;
    }
    for (const int count : {0, 1, 1000, 16384, 100000}) {  // below, at and above the threshold of 64 KiB
        collectives(count);
        messages(count);
    }
    int worst = 0;
    MPI_Allreduce(&failures, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return worst == 0 ? 0 : 1;
}
