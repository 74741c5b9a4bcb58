// What a collective that does not block was given may go before it has ended (MPI 4.0 sections 2.5.1, 7.4.3): the
// communicator, a type. And on mixed memory, where MPI makes the call later than the program, it has our types and
// averages as the program's call has them. Against arithmetic.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 4 --gpus 4 --relinked -x VGPU_JITTER=4
// launch: -n 3 --gpus 3 --relinked -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_SYNC=device
// test-timeout: 120
// clang-format on
#include <mpi.h>
#include <mpix_switchyard.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "gpu.hpp"

namespace {

constexpr int kCount = 40000;

int rank = 0, size = 0, failures = 0;

void expect(bool right, const char* what, int number) {
    if (right)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: %s, number %d\n", rank, what, number);
}

template <typename T>
gpu::Memory filled(gpu::Kind kind, T value, int count = kCount) {
    const std::vector<T> values(static_cast<std::size_t>(count), value);
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return gpu::Memory(kind, bytes);
}

template <typename T>
bool all_are(const gpu::Memory& memory, T value) {
    const std::vector<std::byte> bytes = memory.read();
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (const T& found : values)
        if (found != value)
            return false;
    return true;
}

// A blocking one first: from then on those that do not block agree.
void use(MPI_Comm comm) {
    const gpu::Memory from = filled(gpu::Kind::kDevice, 1.0), to = filled(gpu::Kind::kDevice, 0.0);
    MPI_Allreduce(from.at(0), to.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm);
    expect(all_are(to, 1.0 * size), "a blocking sum", 0);
}

// In every round another rank is late, so the agreement is under way when the others free the communicator. Three
// operations on it: one that NCCL carries, one on mixed memory, one that comes after both.
void free_communicators() {
    for (int round = 0; round < 12; ++round) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        use(comm);
        const bool host = rank == round % size;
        const gpu::Memory from = filled(gpu::Kind::kDevice, rank + 1.0), to = filled(gpu::Kind::kDevice, 0.0);
        const gpu::Memory mixed = filled(host ? gpu::Kind::kHost : gpu::Kind::kDevice, rank == 0 ? 7 : -1, 2 * kCount);
        const gpu::Memory last = filled(gpu::Kind::kDevice, rank == size - 1 ? 9.0 : -1.0);
        MPI_Request requests[3];
        if (rank == (round + 1) % size)
            usleep(20000);
        MPI_Iallreduce(from.at(0), to.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm, &requests[0]);
        MPI_Ibcast(mixed.at(0), 2 * kCount, MPI_INT, 0, comm, &requests[1]);
        MPI_Ibcast(last.at(0), kCount, MPI_DOUBLE, size - 1, comm, &requests[2]);
        if (round % 3 == 0)
            MPI_Comm_disconnect(&comm);
        else
            MPI_Comm_free(&comm);
        if (round % 2 == 0) {  // another of the same ranks, while the first one's operations may be under way
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            use(comm);
            MPI_Comm_free(&comm);
        }
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        expect(all_are(to, size * (size + 1) / 2.0), "the sum on a freed communicator", round);
        expect(all_are(mixed, 7), "the mixed broadcast on a freed communicator", round);
        expect(all_are(last, 9.0), "the last broadcast on a freed communicator", round);
    }
}

// Blocks of a strided type and of a contiguous one, on memory of one kind and of two.
void free_types(bool mixed) {
    const gpu::Kind kind = mixed && rank == 0 ? gpu::Kind::kHost : gpu::Kind::kDevice;
    for (int stride = 1; stride <= 2; ++stride) {
        const gpu::Memory values = filled(kind, rank == 0 ? 5 : -1, 2 * kCount);
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_vector(2 * kCount / stride, 1, stride, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Ibcast(values.at(0), 1, type, 0, MPI_COMM_WORLD, &request);
        MPI_Type_free(&type);
        // Takes the freed type's place in MPI's table.
        MPI_Type_vector(3, 1, 7, MPI_DOUBLE, &type);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Type_free(&type);
        const std::vector<std::byte> bytes = values.read();
        std::vector<int> found(2 * kCount);
        std::memcpy(found.data(), bytes.data(), bytes.size());
        for (int i = 0; i < 2 * kCount; ++i)
            if (found[static_cast<std::size_t>(i)] != (i % stride == 0 || rank == 0 ? 5 : -1)) {
                expect(false, "a broadcast with a freed type: wrong at", i);
                break;
            }
    }
}

void reduce_extensions(bool mixed) {
    const gpu::Kind kind = mixed && rank == size - 1 ? gpu::Kind::kHost : gpu::Kind::kDevice;
    constexpr std::uint16_t kOne = 0x3c00, kTwo = 0x4000, kThree = 0x4200, kFour = 0x4400;  // IEEE 754 binary16
    constexpr std::uint16_t kSums[] = {0, kOne, kTwo, kThree, kFour};
    const gpu::Memory halves = filled(kind, kOne), sums = filled(kind, std::uint16_t{0});
    const gpu::Memory numbers = filled(kind, 2.0 * rank), means = filled(kind, 0.0);
    MPI_Request requests[2];
    MPI_Iallreduce(halves.at(0), sums.at(0), kCount, MPIX_FLOAT16, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(numbers.at(0), means.at(0), kCount, MPI_DOUBLE, MPIX_AVG, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(all_are(sums, kSums[size]), "a sum of MPIX_FLOAT16", mixed);
    expect(all_are(means, size - 1.0), "an average", mixed);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    use(MPI_COMM_WORLD);
    free_communicators();
    for (const bool mixed : {false, true}) {
        free_types(mixed);
        reduce_extensions(mixed);
    }
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
