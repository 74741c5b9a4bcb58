// A receive into host memory that has no room for what stands in for a large device message is pending when the program
// sets its first error handler. It fails by truncation then and returns, by every call that completes it, and the
// sender finishes, as with host memory; only where there is hardly any room (ROOM doubles) the sender does not finish.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x COMPLETE_BY=1
// launch: -n 2 --gpus 2 -x COMPLETE_BY=2
// launch: -n 2 --gpus 1 -x COMPLETE_BY=3 -x SWITCHYARD_NCCL=0
// launch: -n 2 --gpus 2 -x ROOM=1
// launch: -n 2 --gpus 2 -x ROOM=0 -x COMPLETE_BY=1
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "../gpu.hpp"

namespace {

constexpr int kLarge = 1 << 18, kUsualRoom = 12;

int complete(int by, MPI_Request& request, MPI_Status& status) {
    int done = 0, index = 0, code = MPI_SUCCESS;
    switch (by) {
        case 0:
            return MPI_Wait(&request, &status);
        case 1:
            return MPI_Waitall(1, &request, &status) == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS;
        case 2:
            while (done == 0 && code == MPI_SUCCESS)
                code = MPI_Test(&request, &done, &status);
            return code;
        default:
            return MPI_Waitany(1, &request, &index, &status);
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const char *by = std::getenv("COMPLETE_BY"), *wanted = std::getenv("ROOM");
    const int room = wanted != nullptr ? std::atoi(wanted) : kUsualRoom;
    int mpi_class = MPI_ERR_TRUNCATE;
    if (rank == 0) {
        const gpu::Memory memory(gpu::Kind::kDevice, kLarge);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(memory.address(), kLarge, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request);
        if (room == kUsualRoom)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            MPI_Request_free(&request);
    } else {
        double small[kUsualRoom] = {};
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        MPI_Irecv(small, room, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, &request);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Error_class(complete(by != nullptr ? std::atoi(by) : 0, request, status), &mpi_class);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (mpi_class != MPI_ERR_TRUNCATE)
        std::fprintf(stderr, "FAILED: class %d in place of MPI_ERR_TRUNCATE\n", mpi_class);
    MPI_Finalize();
    return mpi_class == MPI_ERR_TRUNCATE ? 0 : 1;
}
