// Error handlers of the program's that leave MPI by a C++ exception: of a message that is too long for its receive, by
// every call that receives or completes one, the sender finishes all the same, and messages go on.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "../gpu.hpp"
#include "truncated.hpp"

namespace {

using gpu::Kind;

constexpr int kLarge = 300000;

void handle(MPI_Comm*, int* code, ...) {  // NOLINT: MPI's type
    throw std::runtime_error(std::to_string(truncated::class_of(*code)));
}

// The class of the error that was thrown; MPI_SUCCESS for none.
int thrown_by(const truncated::Receive& receive, void* memory, int doubles) {
    try {
        int in_status = MPI_SUCCESS;
        receive.make(memory, doubles, MPI_COMM_WORLD, in_status);
    } catch (const std::exception& error) {
        return std::stoi(error.what());
    }
    return MPI_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, failures = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    const gpu::Memory large(Kind::kDevice, std::vector<std::byte>(kLarge, std::byte(rank + 1)));
    for (const truncated::Receive& receive : truncated::kReceives)
        for (const Kind to : {Kind::kHost, Kind::kDevice})
            for (const int doubles : {12, 20, kLarge / 16}) {
                if (rank == 1) {
                    MPI_Send(large.at(0), kLarge, MPI_BYTE, 0, truncated::kTag, MPI_COMM_WORLD);
                    MPI_Send(large.at(0), kLarge, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
                    continue;
                }
                const gpu::Memory memory(to, kLarge);
                const int mpi_class = thrown_by(receive, memory.at(0), doubles);
                MPI_Recv(memory.at(0), kLarge, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                const bool received = memory.read() == std::vector<std::byte>(kLarge, std::byte{2});
                if ((mpi_class == MPI_ERR_TRUNCATE || mpi_class == MPI_ERR_IN_STATUS) && received)
                    continue;
                std::fprintf(stderr, "FAILED: MPI_%s of %d doubles in %s memory: class %d was thrown%s\n", receive.name,
                             doubles, gpu::name(to), mpi_class, received ? "" : ", and the next message is wrong");
                ++failures;
            }
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
