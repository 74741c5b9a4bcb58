// Threads on windows that all ranks map, each of which makes its calls itself. Expected by arithmetic.
// launch: -n 2 --gpus 2 -x VGPU_JITTER=5
// launch: -n 3 --gpus 3
// launch: -n 4 --gpus 2
#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "../gpu.hpp"
#include "known_window.hpp"

namespace {

using namespace known_window;

// Threads of all ranks put into, get from and add to other ranks' windows at once: each in ints of its own, and all in
// one, from device and from host memory.
void work_in_threads() {
    constexpr int kThreads = 4, kRounds = 25, kOwn = 250, kShared = kInts - 1;
    const auto target_of = [](int origin) { return Window::empty_on((origin + 1) % size) ? 0 : (origin + 1) % size; };
    const Window window;
    const int target = target_of(rank);
    std::atomic<int> wrong{0};
    MPI_Win_lock_all(0, window.win);
    const auto work = [&](int thread) {
        gpu::Driver::get().use(rank % gpu::Driver::get().devices);
        const gpu::Kind kind = thread % 2 == 0 ? gpu::Kind::kDevice : gpu::Kind::kHost;
        gpu::Memory given(kind, kOwn * kInt), got(kind, kOwn * kInt);
        const int one = 1;
        const MPI_Aint own = Window::disp(target, (rank * kThreads + thread) * kOwn);
        for (int round = 0; round < kRounds; ++round) {
            const std::vector<int> values(kOwn, 1000 * thread + round);
            std::vector<std::byte> bytes(kOwn * kInt);
            std::memcpy(bytes.data(), values.data(), bytes.size());
            given.write(bytes);
            gpu::Driver::get().synchronize();
            MPI_Put(given.address(), kOwn, MPI_INT, target, own, kOwn, MPI_INT, window.win);
            MPI_Accumulate(&one, 1, MPI_INT, target, Window::disp(target, kShared), 1, MPI_INT, MPI_SUM, window.win);
            MPI_Win_flush(target, window.win);
            MPI_Get(got.address(), kOwn, MPI_INT, target, own, kOwn, MPI_INT, window.win);
            MPI_Win_flush(target, window.win);
            if (got.read() != bytes)
                ++wrong;
        }
    };
    std::vector<std::thread> all;
    for (int thread = 0; thread < kThreads; ++thread)
        all.emplace_back(work, thread);
    for (std::thread& thread : all)
        thread.join();
    MPI_Win_unlock_all(window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(wrong == 0, "what a thread has put and got beside others");
    int origins = 0;
    for (int origin = 0; origin < size; ++origin)
        origins += target_of(origin) == rank ? 1 : 0;
    if (!Window::empty_on(rank))
        expect(window.at(kShared) == initial(rank, kShared) + origins * kThreads * kRounds, "what threads have added");
}

}  // namespace

int main(int argc, char** argv) {
    int level = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE)
        return 77;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    work_in_threads();
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
