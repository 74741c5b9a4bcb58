// One thread probes for large messages from device memory and receives them, another receives small ones of host memory
// that were sent before each, with a tag of their own: what a probe has to take from MPI on its way to a large one, the
// other thread gets however long its receive takes to arrive there. Driven by probing.test.
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kLarge = 100000, kRounds = 80;
enum Tag { kLargeTag = 1, kSmallTag = 2 };

std::vector<std::byte> content(int round) {
    std::vector<std::byte> all(kLarge);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::byte>((i + 3) * 2654435761u >> 12) ^ static_cast<std::byte>(round);
    return all;
}

int failures = 0;

void send() {
    gpu::Memory large(gpu::Kind::kDevice, kLarge);
    for (int round = 0; round < kRounds; ++round) {
        MPI_Request request = MPI_REQUEST_NULL;
        large.write(content(round));
        MPI_Isend(&round, 1, MPI_INT, 1, kSmallTag, MPI_COMM_WORLD, &request);
        MPI_Send(large.at(0), kLarge, MPI_BYTE, 1, kLargeTag, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

void receive_large(int round) {
    const gpu::Memory large(gpu::Kind::kDevice, kLarge);
    MPI_Status status;
    int count = 0;
    MPI_Probe(0, kLargeTag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    MPI_Recv(large.at(0), kLarge, MPI_BYTE, 0, kLargeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (count != kLarge || large.read() != content(round)) {
        std::fprintf(stderr, "FAILED: the large message of round %d, probed to have %d bytes\n", round, count);
        ++failures;
    }
}

void receive_small() {
    for (int round = 0; round < kRounds; ++round) {
        int number = 0;
        MPI_Request request = MPI_REQUEST_NULL;
        if (round % 8 < 4) {
            MPI_Recv(&number, 1, MPI_INT, 0, kSmallTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(&number, 1, MPI_INT, 0, kSmallTag, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (number != round) {
            std::fprintf(stderr, "FAILED: the small message of round %d says %d\n", round, number);
            ++failures;
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    int provided = MPI_THREAD_SINGLE;
    int rank = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int device = rank % gpu::Driver::get().devices;
    gpu::Driver::get().use(device);
    if (rank == 0) {
        send();
    } else {
        std::thread other(receive_small);
        usleep(10000);  // the first small receive is on its way when the first probe comes
        for (int round = 0; round < kRounds; ++round)
            receive_large(round);
        other.join();
        const auto* detained = static_cast<const int*>(dlsym(RTLD_DEFAULT, "receives_detained"));
        if (detained == nullptr || *detained == 0) {
            std::fprintf(stderr, "FAILED: no receive was detained\n");
            ++failures;
        }
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
