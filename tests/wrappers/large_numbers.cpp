// Numbers that no int holds: a block at such a displacement arrives over NCCL and staged, and no count is cut to an
// int. Both forms may meet in one collective. tests/wrappers/large_counts.test runs it, on 2 ranks.
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "../large_counts.hpp"
#include "device_memory.h"

namespace {

constexpr MPI_Aint kFar = MPI_Aint{1} << 31;
int rank = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
    ++failures;
}

std::vector<char> pattern(int of, MPI_Count bytes) {
    return std::vector<char>(static_cast<std::size_t>(bytes), static_cast<char>('a' + of));
}

// Rank 1's block lies behind 2 GiB of gap.
void far_apart(MPI_Count bytes, bool blocking, char* all) {
    const std::string what = std::to_string(bytes) + (blocking ? " bytes" : " bytes, not blocking");
    const MPI_Count counts[] = {bytes, bytes};
    const MPI_Aint displs[] = {0, kFar + 64};
    auto* mine = static_cast<char*>(device_alloc(static_cast<std::size_t>(bytes)));
    device_copy(mine, pattern(rank, bytes).data(), static_cast<std::size_t>(bytes));
    for (const MPI_Aint at : displs)
        device_copy(all + at, pattern(9, bytes).data(), static_cast<std::size_t>(bytes));
    MPI_Request request = MPI_REQUEST_NULL;
    const int code =
        blocking ? MPI_Allgatherv_c(mine, bytes, MPI_BYTE, all, counts, displs, MPI_BYTE, MPI_COMM_WORLD)
                 : MPI_Iallgatherv_c(mine, bytes, MPI_BYTE, all, counts, displs, MPI_BYTE, MPI_COMM_WORLD, &request);
    expect(code == MPI_SUCCESS && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS, what + ": an error");
    for (int r = 0; r < 2; ++r) {
        std::vector<char> block(static_cast<std::size_t>(bytes));
        device_copy(block.data(), all + displs[r], block.size());
        expect(block == pattern(r, bytes), what + ": the block of rank " + std::to_string(r));
    }
    device_free(mine);
}

// Rank 0 passes counts of one type and rank 1 of the other.
void forms_meet(char* all) {
    constexpr int kBytes = 500000;
    const int counts[] = {kBytes, kBytes}, displs[] = {0, kBytes};
    const MPI_Count large_counts[] = {kBytes, kBytes};
    const MPI_Aint large_displs[] = {0, kBytes};
    auto* mine = static_cast<char*>(device_alloc(kBytes));
    device_copy(mine, pattern(rank, kBytes).data(), kBytes);
    const int code =
        rank == 0 ? MPI_Allgatherv(mine, kBytes, MPI_BYTE, all, counts, displs, MPI_BYTE, MPI_COMM_WORLD)
                  : MPI_Allgatherv_c(mine, kBytes, MPI_BYTE, all, large_counts, large_displs, MPI_BYTE, MPI_COMM_WORLD);
    expect(code == MPI_SUCCESS, "both forms in one collective: an error");
    for (int r = 0; r < 2; ++r) {
        std::vector<char> block(kBytes);
        device_copy(block.data(), all + displs[r], block.size());
        expect(block == pattern(r, kBytes), "both forms in one collective: the block of rank " + std::to_string(r));
    }
    device_free(mine);
}

// The MPI of this test, which has int alone, reports such a count where it comes to it.
void many_of_nothing(void* device) {
    constexpr MPI_Count kMany = (MPI_Count{1} << 32) + 1;
    const MPI_Count counts[] = {kMany, kMany};
    const MPI_Aint displs[] = {0, 0};
    MPI_Datatype nothing = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    const int codes[] = {
        MPI_Bcast_c(device, kMany, nothing, 0, MPI_COMM_WORLD),
        MPI_Alltoallv_c(device, counts, displs, nothing, device, counts, displs, nothing, MPI_COMM_WORLD),
    };
    for (const int code : codes) {
        int error_class = MPI_SUCCESS;
        MPI_Error_class(code, &error_class);
        expect(error_class == MPI_ERR_COUNT, "a count of 2^32 + 1: class " + std::to_string(error_class));
    }
    MPI_Type_free(&nothing);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    auto* all = static_cast<char*>(device_alloc(static_cast<std::size_t>(kFar) + (1U << 20)));
    for (const MPI_Count bytes : {1000, 500000})
        for (const bool blocking : {true, false})
            far_apart(bytes, blocking, all);
    forms_meet(all);
    many_of_nothing(all);
    device_free(all);
    MPI_Finalize();
    return failures != 0;
}
