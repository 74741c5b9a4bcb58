// What a process has in use, to be compared after few and after many rounds of the same. Test programs only.
#pragma once

#include <dirent.h>
#include <malloc.h>

#include <cstddef>
#include <cstdio>

#include "../gpu.hpp"
#include "../pml.hpp"

namespace comm_test {

constexpr int kFirstRounds = 10;

struct Cost {
    long descriptors = 0;
    std::size_t heap = 0, device_free = 0;
};

inline Cost cost() {
    Cost now;
    if (DIR* folder = opendir("/proc/self/fd")) {
        while (readdir(folder) != nullptr)
            ++now.descriptors;
        closedir(folder);
    }
    now.heap = mallinfo2().uordblks;
    std::size_t total = 0;
    auto& driver = gpu::Driver::get();
    driver.check("cuMemGetInfo",
                 driver.call<int(std::size_t*, std::size_t*)>("cuMemGetInfo_v2")(&now.device_free, &total));
    return now;
}

// Tables and caches grow a little at first, and Open MPI keeps a few bytes for each communicator that there ever was. A
// communicator's state, lost in each round, would be several hundred. UCX has pools, which
// grow now and then.
struct Growth {
    std::size_t at_all = mpi_test::over("ucx") ? 262144 : 65536, each_round = 64;
};

// How many things cost more in the end than after the first rounds, each of which is told.
inline int dearer(int rank, const Cost& early, const Cost& late, int rounds, const Growth& heap = {}) {
    int failures = 0;
    if (late.descriptors > early.descriptors) {
        ++failures;
        std::fprintf(stderr, "rank %d: %ld file descriptors after the first rounds, %ld in the end\n", rank,
                     early.descriptors, late.descriptors);
    }
    if (late.device_free < early.device_free) {
        ++failures;
        std::fprintf(stderr, "rank %d: %zu bytes of device memory free after the first rounds, %zu in the end\n", rank,
                     early.device_free, late.device_free);
    }
    std::printf("rank %d: heap %zu, and %zu after %d rounds\n", rank, early.heap, late.heap, rounds);
    if (late.heap > early.heap + heap.at_all + heap.each_round * static_cast<std::size_t>(rounds)) {
        ++failures;
        std::fprintf(stderr, "rank %d: %zu bytes of the heap in use after the first rounds, %zu in the end\n", rank,
                     early.heap, late.heap);
    }
    return failures;
}

}  // namespace comm_test
