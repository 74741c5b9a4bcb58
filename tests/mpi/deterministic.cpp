// With SWITCHYARD_DETERMINISTIC=1 sums and products of floating-point numbers are those of the ranks' order, bit for
// bit, as a loop makes them; the numbers are such that other orders give other bits.
// clang-format off
// launch: -n 4 --gpus 4 -x SWITCHYARD_DETERMINISTIC=1
// launch: -n 5 --gpus 5 -x SWITCHYARD_DETERMINISTIC=1 -x VGPU_JITTER=3
// launch: -n 3 --gpus 3 -x SWITCHYARD_DETERMINISTIC=1 -x SWITCHYARD_AGREE=mpi
// clang-format on
#include "config.h"

#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "gpu.hpp"

namespace {

int rank = 0, size = 0, failures = 0;
constexpr int kCount = 60000;

template <typename T>
T number(int owner, int i) {
    return static_cast<T>(std::ldexp(1.0 + ((owner * 7919 + i % 1000 * 729) % 1000) / 997.0, (owner * 5 + i) % 7));
}

template <typename T>
T folded(int i, bool product, bool backwards) {
    T value = number<T>(backwards ? size - 1 : 0, i);
    for (int r = 1; r < size; ++r) {
        const T next = number<T>(backwards ? size - 1 - r : r, i);
        value = product ? value * next : value + next;
    }
    return value;
}

enum class Form { kAllreduce, kReduce, kReduceScatterBlock, kIallreduce, kScan, kForms };
constexpr const char* kNames[] = {"MPI_Allreduce", "MPI_Reduce", "MPI_Reduce_scatter_block", "MPI_Iallreduce",
                                  "MPI_Scan"};

void call(Form form, const void* send, void* recv, MPI_Datatype type, MPI_Op op) {
    MPI_Request request = MPI_REQUEST_NULL;
    switch (form) {
        case Form::kAllreduce:
            MPI_Allreduce(send, recv, kCount, type, op, MPI_COMM_WORLD);
            break;
        case Form::kReduce:
            MPI_Reduce(send, recv, kCount, type, op, size - 1, MPI_COMM_WORLD);
            break;
        case Form::kReduceScatterBlock:
            MPI_Reduce_scatter_block(send, recv, kCount / size, type, op, MPI_COMM_WORLD);
            break;
        case Form::kScan:
            MPI_Scan(send, recv, kCount, type, op, MPI_COMM_WORLD);
            break;
        default:
            MPI_Iallreduce(send, recv, kCount, type, op, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

template <typename T>
void check(Form form, MPI_Datatype type, bool product) {
    std::vector<T> numbers(kCount), results(kCount);
    for (int i = 0; i < kCount; ++i)
        numbers[static_cast<std::size_t>(i)] = number<T>(rank, i);
    std::vector<std::byte> bytes(kCount * sizeof(T));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    const gpu::Memory send(gpu::Kind::kDevice, bytes), recv(gpu::Kind::kDevice, bytes);
    call(form, send.address(), recv.address(), type, product ? MPI_PROD : MPI_SUM);
    std::memcpy(results.data(), recv.read().data(), bytes.size());
    const bool mine = form != Form::kReduce || rank == size - 1;
    const int block = kCount / size, first = form == Form::kReduceScatterBlock ? rank * block : 0;
    const int count = !mine ? 0 : form == Form::kReduceScatterBlock ? block : kCount;
    const int all = size;
    size = form == Form::kScan ? rank + 1 : all;
    int wrong = 0;
    for (int i = 0; i < count; ++i)
        wrong += folded<T>(first + i, product, false) != results[static_cast<std::size_t>(i)];
    size = all;
    if (wrong == 0)
        return;
    ++failures;
    std::fprintf(stderr, "FAILED: rank %d: %s of %s, %s: %d of %d numbers differ\n", rank,
                 kNames[static_cast<int>(form)], sizeof(T) == 4 ? "float" : "double", product ? "products" : "sums",
                 wrong, count);
}

template <typename T>
bool order_matters() {
    for (int i = 0; i < kCount; ++i)
        if (folded<T>(i, false, false) != folded<T>(i, false, true))
            return true;
    return false;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#ifndef SWY_HAVE_KERNELS
    if (rank == 0)
        std::puts("built without nvcc: these reductions are staged, in Open MPI's order");
    MPI_Finalize();
    return 77;
#endif
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    if (!order_matters<float>() || !order_matters<double>()) {
        std::fprintf(stderr, "FAILED: the numbers show nothing\n");
        ++failures;
    }
    for (int form = 0; form < static_cast<int>(Form::kForms); ++form)
        for (const bool product : {false, true}) {
            check<float>(static_cast<Form>(form), MPI_FLOAT, product);
            check<double>(static_cast<Form>(form), MPI_DOUBLE, product);
        }
    MPI_Finalize();
    return failures != 0;
}
