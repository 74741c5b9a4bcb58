// In steady state no call makes a thread: collectives of the same call, size, type and operator are launched by their
// caller, also where NCCL connects ranks when an algorithm is first used (NCCL_RUNTIME_CONNECT=1, or a program that has
// used NCCL before). Making one takes longer than a small collective. The results are compared with arithmetic.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x NCCL_RUNTIME_CONNECT=1
// launch: -n 3 --gpus 3 -x NCCL_RUNTIME_CONNECT=1 -x VGPU_JITTER=4
// launch: -n 2 --gpus 2 -x NCCL_RUNTIME_CONNECT=1 -x SWITCHYARD_DETERMINISTIC=1
// test-timeout: 120
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../gpu.hpp"

namespace {

std::atomic<int> made{0};

}  // namespace

// Every library of the process finds this one first.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* data) {
    using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static auto* const create = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
    ++made;
    return create(thread, attributes, start, data);
}

namespace {

constexpr int kCounts[] = {20000, 70000, 262144};
int rank = 0, size = 0, wrong = 0;

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

void expect(const gpu::Memory& memory, float value, const char* what) {
    const std::vector<float> wanted(memory.size() / sizeof(float), value);
    if (memory.read() == bytes_of(wanted))
        return;
    ++wrong;
    std::fprintf(stderr, "FAILED: rank %d: %s is not %g\n", rank, what, static_cast<double>(value));
}

void calls(int count) {
    const std::vector<float> mine(static_cast<std::size_t>(count), static_cast<float>(rank + 1));
    const gpu::Memory one(gpu::Kind::kDevice, bytes_of(mine)), sum(gpu::Kind::kDevice, one.size());
    gpu::Memory all(gpu::Kind::kDevice, one.size() * static_cast<std::size_t>(size));
    MPI_Allreduce(one.address(), sum.address(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum, static_cast<float>(size * (size + 1) / 2), "the sum");
    MPI_Allreduce(one.address(), sum.address(), count, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    expect(sum, static_cast<float>(size), "the maximum");
    MPI_Bcast(sum.address(), count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    MPI_Allgather(one.address(), count, MPI_FLOAT, all.address(), count, MPI_FLOAT, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(all.address(), sum.address(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum, static_cast<float>(size * (rank + 1)), "the sum of a block");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(rank % driver.devices);
    for (const int count : kCounts)
        calls(count);
    const int before = made;
    for (int round = 0; round < 5; ++round)
        for (const int count : kCounts)
            calls(count);
    const int later = made - before;
    if (before == 0 || later != 0)
        std::fprintf(stderr, "FAILED: rank %d: %d threads were made at first and %d later\n", rank, before, later);
    MPI_Finalize();
    return wrong != 0 || before == 0 || later != 0;
}
