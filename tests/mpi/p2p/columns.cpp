// Many receives at once into the columns of one matrix in host memory, all given by the matrix' address and a type of
// their own, of messages from device memory that have one tag: which message is whose is their order alone. Some are as
// long as what stands in for a large message. The data against arithmetic.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_CHUNK=65536 -x VGPU_JITTER=3
// launch: -n 3 --gpus 1 -x SWITCHYARD_NCCL=0
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kColumns = 48, kRows = 800, kRounds = 6;
constexpr int kWidth = 101;  // bytes of a column in a row
constexpr int kTag = 4;

int rows_of(int column) {
    return column % 6 == 4 ? 1 : kRows - column;
}

std::byte value(int from, int round, int column, int at) {
    return static_cast<std::byte>((from + 1) * 7 + round * 31 + column * 13 + at / kWidth * 3 + at % kWidth);
}

void send(int rank, int round) {
    std::vector<gpu::Memory> memory;
    std::vector<MPI_Request> requests(kColumns, MPI_REQUEST_NULL);
    for (int column = 0; column < kColumns; ++column) {
        std::vector<std::byte> content;
        for (int at = 0; at < rows_of(column) * kWidth; ++at)
            content.push_back(value(rank, round, column, at));
        memory.emplace_back(gpu::Kind::kDevice, content);
    }
    for (std::size_t i = 0; i < memory.size(); ++i)
        MPI_Isend(memory[i].address(), static_cast<int>(memory[i].size()), MPI_BYTE, 0, kTag, MPI_COMM_WORLD,
                  &requests[i]);
    MPI_Waitall(kColumns, requests.data(), MPI_STATUSES_IGNORE);
}

MPI_Datatype type_of(int from, int column, int senders) {
    MPI_Datatype rows = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
    const int one = 1;
    const MPI_Aint at = MPI_Aint{kWidth} * ((from - 1) * kColumns + column);
    MPI_Type_create_hvector(rows_of(column), kWidth, MPI_Aint{kWidth} * kColumns * senders, MPI_BYTE, &rows);
    MPI_Type_create_hindexed(1, &one, &at, rows, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&rows);
    return type;
}

int receive(int senders, int round) {
    std::vector<std::byte> matrix(static_cast<std::size_t>(kWidth) * kColumns * senders * kRows);
    std::vector<MPI_Request> requests;
    for (int column = 0; column < kColumns; ++column)
        for (int from = 1; from <= senders; ++from) {
            MPI_Datatype type = type_of(from, column, senders);
            requests.push_back(MPI_REQUEST_NULL);
            MPI_Irecv(matrix.data(), 1, type, from, kTag, MPI_COMM_WORLD, &requests.back());
            MPI_Type_free(&type);
        }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    int wrong = 0;
    for (int from = 1; from <= senders; ++from)
        for (int column = 0; column < kColumns; ++column) {
            bool right = true;
            for (int row = 0; row < kRows; ++row)
                for (int i = 0; i < kWidth; ++i) {
                    const std::byte seen =
                        matrix[static_cast<std::size_t>(((row * senders + from - 1) * kColumns + column) * kWidth + i)];
                    right = right && seen == (row < rows_of(column) ? value(from, round, column, row * kWidth + i)
                                                                    : std::byte{});
                }
            if (!right)
                std::fprintf(stderr, "FAILED: round %d, column %d from rank %d\n", round, column, from);
            wrong += right ? 0 : 1;
        }
    return wrong;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    int wrong = 0;
    for (int round = 0; round < kRounds; ++round)
        if (rank == 0)
            wrong += receive(size - 1, round);
        else
            send(rank, round);
    MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d columns received, %d wrong\n", kRounds * kColumns * (size - 1), wrong);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
