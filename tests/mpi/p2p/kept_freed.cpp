// A message that was probed and never received goes with its communicator: what comes on later ones, which may have the
// handle of the first, is what was sent there. Host memory alone; the message is as long as the library's envelopes.
// launch: -n 2 --gpus 2
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

namespace {

constexpr int kOddBytes = 101, kTag = 6;
int failures = 0;

void receive(MPI_Comm comm, char wanted) {
    std::array<char, 200> bytes{};
    MPI_Status status;
    int count = 0;
    MPI_Recv(bytes.data(), 200, MPI_CHAR, 0, kTag, comm, &status);
    MPI_Get_count(&status, MPI_CHAR, &count);
    if (count == 1 && bytes[0] == wanted)
        return;
    std::fprintf(stderr, "FAILED: %d bytes that begin with '%c' where one '%c' was sent\n", count, bytes[0], wanted);
    ++failures;
}

}  // namespace

int main(int argc, char** argv) {
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    // Every other communicator is freed with a message that was probed. MPI may take a handle's memory for others
    // first: the library makes communicators too.
    std::set<MPI_Comm> left;
    bool used_again = false;
    for (char round = 0; round < 12; ++round) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        const bool leaves = round % 2 == 0;
        used_again |= !leaves && left.contains(comm);
        const char letter = static_cast<char>('A' + round);
        std::array<char, kOddBytes> odd;
        odd.fill('x');
        if (rank == 0 && leaves)
            MPI_Send(odd.data(), kOddBytes, MPI_CHAR, 1, kTag, comm);
        else if (rank == 0)
            MPI_Send(&letter, 1, MPI_CHAR, 1, kTag, comm);
        else if (leaves)
            MPI_Probe(MPI_ANY_SOURCE, kTag, comm, MPI_STATUS_IGNORE);
        else
            receive(comm, letter);
        if (leaves)
            left.insert(comm);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }
    if (rank == 1 && !used_again) {  // the rank that has probed
        std::fprintf(stderr, "FAILED: MPI never used the handle again\n");
        ++failures;
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
