// What MPI_Iprobe says of a message that another thread receives at that moment is of that message: not of one that
// comes next, into the memory that it had. Driven by probe_status.test, with a library behind ours that keeps a probe a
// while between finding the message and looking at it (detain_probe.c). Host memory alone. Open MPI 4.1.4 and 5.0 alone
// fail.
#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

constexpr int kRounds = 60;
enum Tag { kProbed = 1, kNext = 2, kGo = 3, kNobodys = 9 };

std::atomic<bool> over{false};
std::atomic<int> found{0};
int failures = 0;

void send() {
    const char next[7] = {};
    for (int round = 0; round < kRounds; ++round) {
        MPI_Send(&round, 1, MPI_INT, 1, kProbed, MPI_COMM_WORLD);
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(next, 7, MPI_BYTE, 1, kNext, MPI_COMM_WORLD);
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void probe() {
    while (!over) {
        MPI_Status status;
        int flag = 0, bytes = 0;
        MPI_Iprobe(0, kProbed, MPI_COMM_WORLD, &flag, &status);
        if (flag == 0)
            continue;
        ++found;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (bytes == static_cast<int>(sizeof(int)) && status.MPI_TAG == kProbed && status.MPI_SOURCE == 0)
            continue;
        std::fprintf(stderr, "FAILED: a message of %d bytes with tag %d\n", bytes, status.MPI_TAG);
        ++failures;
    }
}

void progress_for(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    for (int flag = 0; std::chrono::steady_clock::now() < end;)
        MPI_Iprobe(0, kNobodys, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

// The other thread's probes are at this round's message then.
void let_it_be_probed() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (const int before = found; found == before && std::chrono::steady_clock::now() < end;)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void receive() {
    constexpr std::chrono::milliseconds kUntilNext(2);
    for (int round = 0; round < kRounds; ++round) {
        int number = -1;
        char next[7];
        let_it_be_probed();
        MPI_Recv(&number, 1, MPI_INT, 0, kProbed, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(nullptr, 0, MPI_BYTE, 0, kGo, MPI_COMM_WORLD);
        progress_for(kUntilNext);
        MPI_Recv(next, 7, MPI_BYTE, 0, kNext, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(nullptr, 0, MPI_BYTE, 0, kGo, MPI_COMM_WORLD);
    }
}

}  // namespace

int main(int argc, char** argv) {
    int provided = MPI_THREAD_SINGLE, rank = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        send();
    } else {
        std::thread other(probe);
        receive();
        over = true;
        other.join();
        const auto* detained = static_cast<const int*>(dlsym(RTLD_DEFAULT, "probes_detained"));
        if (found == 0 || detained == nullptr || *detained == 0) {
            std::fprintf(stderr, "FAILED: no probe was detained, or none found a message\n");
            ++failures;
        }
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
