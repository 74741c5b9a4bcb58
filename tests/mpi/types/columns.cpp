// Columns of a matrix on the device, sent by MPI_Sendrecv (option: message), which stages them in chunks, or gathered
// by MPI_Allgather (gather), checked by arithmetic. packing.test counts what that takes.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kRows = 40000, kWidth = 5;  // of doubles; a column is over the thresholds

double value(int owner, int row, int column) {
    return owner * 1e7 + row * 10.0 + column;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    MPI_Datatype column = MPI_DATATYPE_NULL, resized = MPI_DATATYPE_NULL;
    MPI_Type_vector(kRows, 1, kWidth, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &resized);
    MPI_Type_commit(&resized);
    std::vector<double> matrix(std::size_t{kRows} * kWidth);
    for (int row = 0; row < kRows; ++row)
        for (int c = 0; c < kWidth; ++c)
            matrix[static_cast<std::size_t>(row * kWidth + c)] = value(rank, row, c);
    std::vector<std::byte> content(matrix.size() * sizeof(double));
    std::memcpy(content.data(), matrix.data(), content.size());
    const gpu::Memory send(gpu::Kind::kDevice, content), recv(gpu::Kind::kDevice, content);
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    const bool gather = argc > 1 && std::string_view(argv[1]) == "gather";
    if (gather)  // from column 1 of each rank into columns 0, 1, ...
        MPI_Allgather(send.at(sizeof(double)), 1, resized, recv.address(), 1, resized, MPI_COMM_WORLD);
    else  // from column 1 into column 3
        MPI_Sendrecv(send.at(sizeof(double)), 1, resized, next, 0, recv.at(3 * sizeof(double)), 1, resized, previous, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::memcpy(content.data(), recv.read().data(), content.size());
    std::memcpy(matrix.data(), content.data(), content.size());
    int wrong = 0;
    for (int row = 0; row < kRows; ++row)
        for (int c = 0; c < kWidth; ++c) {
            const bool theirs = gather ? c < size : c == 3;
            const double wanted = theirs ? value(gather ? c : previous, row, 1) : value(rank, row, c);
            wrong += matrix[static_cast<std::size_t>(row * kWidth + c)] != wanted;
        }
    if (wrong != 0)
        std::fprintf(stderr, "rank %d: FAILED: %d numbers are wrong\n", rank, wrong);
    MPI_Type_free(&resized);
    MPI_Type_free(&column);
    MPI_Finalize();
    return wrong != 0;
}
