// A program error that NCCL finds while its kernel runs, device memory that a rank has freed under a collective, is an
// error on all ranks: NCCL's stream ends all the same. Later calls are right.
// launch: -n 3 --gpus 3 --timeout 60
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kCount = 50000;  // above the threshold
int rank = 0, size = 0, failures = 0;

void expect(bool good, const char* what) {
    if (good)
        return;
    std::fprintf(stderr, "rank %d: %s\n", rank, what);
    ++failures;
}

std::vector<std::byte> ints(int value) {
    const std::vector<int> all(kCount, value);
    const auto* bytes = reinterpret_cast<const std::byte*>(all.data());
    return {bytes, bytes + kCount * sizeof(int)};
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu::Driver::get().use(rank);
    for (int round = 0; round < 6; ++round) {
        const bool frees = round % 2 == 1;
        std::optional<gpu::Memory> in(std::in_place, gpu::Kind::kDevice, ints(1)),
            out(std::in_place, gpu::Kind::kDevice, ints(0));
        MPI_Request request = MPI_REQUEST_NULL;
        int code =
            frees ? MPI_Iallreduce(in->address(), out->address(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request)
                  : MPI_Allreduce(in->address(), out->address(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        expect(code == MPI_SUCCESS, "a call that cannot fail has failed");
        if (frees && rank == 1) {
            in.reset();
            out.reset();
        }
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (frees)
            expect(code != MPI_SUCCESS, "MPI_SUCCESS although a rank's memory is gone");
        else
            expect(code == MPI_SUCCESS && out->read() == ints(size), "a wrong sum");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
