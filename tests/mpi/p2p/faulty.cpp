// Two ranks exchange messages in device memory while NCCL or the driver fails on one of them (VGPU_FAULTS). Each says
// which rounds have failed and why; in all others what arrives is checked, and in the end none may fail. The argument
// is how many bytes a message has; with --with-collective a collective comes first. With --hangs the job ends with 3
// after the first failure: what a device that hangs does to the program's own calls of the driver is not of interest.
// Driven by faults.test.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kRounds = 60;
int bytes = 0;

std::vector<std::byte> content(int from, int round) {
    std::vector<std::byte> all(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(from * 31 + round));
    return all;
}

void say(int rank, int round, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, mpi_class = 0;
    MPI_Error_class(code, &mpi_class);
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "rank %d, round %d, class %d: %s\n", rank, round, mpi_class, text);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank);
    bytes = std::atoi(argv[1]);
    const gpu::Memory out(gpu::Kind::kDevice, content(0, 0)), in(gpu::Kind::kDevice, content(0, 0));
    // Gives the communicator its own NCCL communicator.
    const std::string option = argc > 2 ? argv[2] : "";
    if (option == "--with-collective")
        MPI_Allreduce(out.at(0), in.at(0), bytes, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    int failing = 0;  // has the last round failed on a rank?
    for (int round = 0; round < kRounds || (failing != 0 && round < 2 * kRounds); ++round) {
        const std::vector<std::byte> mine = content(rank, round);
        gpu::Driver::get().copy(out.at(0), mine.data(), mine.size());
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(in.at(0), bytes, MPI_BYTE, 1 - rank, round, MPI_COMM_WORLD, &requests[0]);
        requests[1] = MPI_REQUEST_NULL;
        const int sent = MPI_Isend(out.at(0), bytes, MPI_BYTE, 1 - rank, round, MPI_COMM_WORLD, &requests[1]);
        if (sent != MPI_SUCCESS)
            say(rank, round, sent);
        const auto end_if_hangs = [&](bool is_over) {
            if (option != "--hangs" || !is_over)
                return;
            usleep(3'000'000);  // in which the other rank says it too
            MPI_Abort(MPI_COMM_WORLD, 3);
        };
        end_if_hangs(sent != MPI_SUCCESS);
        bool failed = MPI_Waitall(2, requests, statuses) != MPI_SUCCESS;
        for (int i = 0; failed && i < 2; ++i)
            if (statuses[i].MPI_ERROR != MPI_SUCCESS)
                say(rank, round, statuses[i].MPI_ERROR);
        end_if_hangs(failed);
        if (!failed && in.read() != content(1 - rank, round) && wrong++ == 0)
            std::fprintf(stderr, "rank %d, round %d: what has arrived is wrong\n", rank, round);
        // Lanes are made in the background.
        for (int turn = 0; round < 20 && turn < 20; ++turn) {
            usleep(1000);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        const int failing_here = failed ? 1 : 0;
        if (round >= kRounds - 1)
            MPI_Allreduce(&failing_here, &failing, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    wrong += failing;
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
