// Threads wait in MPI_Probe or MPI_Mprobe from the beginning, each for a small message of its own tag, while another
// thread probes for large messages from a device, behind which the small ones are sent: what a probe has to take from
// MPI on its way to a large one, the others find however long they have been waiting.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x MATCHED=1
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kLarge = 1 << 18, kThreads = 6;
enum Tag { kLargeTag = 1, kFirstSmallTag = 2 };

std::atomic<int> failures{0};

void expect(bool condition, const char* text, int number) {
    if (condition)
        return;
    std::fprintf(stderr, "FAILED: %s message %d\n", text, number);
    ++failures;
}

// Until the threads wait in their probes: how many do changes what the test finds, not what is right.
void give_time() {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// A large one alone, then small ones, each with a large one right behind it.
void send(gpu::Memory& large) {
    give_time();
    MPI_Send(large.at(0), kLarge, MPI_BYTE, 1, kLargeTag, MPI_COMM_WORLD);
    for (int i = 0; i < kThreads; ++i) {
        MPI_Request request = MPI_REQUEST_NULL;
        give_time();
        MPI_Send(&i, 1, MPI_INT, 1, kFirstSmallTag + i, MPI_COMM_WORLD);
        MPI_Isend(large.at(0), kLarge, MPI_BYTE, 1, kLargeTag, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

void receive_small(int i, bool matched) {
    const int tag = kFirstSmallTag + i;
    int number = -1, count = 0;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    if (matched) {
        MPI_Mprobe(0, tag, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(&number, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    } else {
        MPI_Probe(0, tag, MPI_COMM_WORLD, &status);
        MPI_Recv(&number, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Get_count(&status, MPI_INT, &count);
    expect(number == i && count == 1 && status.MPI_TAG == tag, "small", i);
}

void receive_large(gpu::Memory& large) {
    for (int i = 0; i <= kThreads; ++i) {
        MPI_Status status;
        int count = 0;
        MPI_Probe(0, kLargeTag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        expect(count == kLarge, "large", i);
        MPI_Recv(large.at(0), kLarge, MPI_BYTE, 0, kLargeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

}  // namespace

int main(int argc, char** argv) {
    int provided = MPI_THREAD_SINGLE, rank = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    gpu::Memory large(gpu::Kind::kDevice, kLarge);
    if (rank == 0) {
        send(large);
    } else {
        std::vector<std::thread> others;
        for (int i = 0; i < kThreads; ++i)
            others.emplace_back(receive_small, i, std::getenv("MATCHED") != nullptr);
        receive_large(large);
        for (std::thread& other : others)
            other.join();
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
