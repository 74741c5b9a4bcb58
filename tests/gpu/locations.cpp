// How long the library takes to learn where a buffer lives, beside the driver's own question, for memory of each kind.
// Prints lines "STATE KIND NANOSECONDS NANOSECONDS-OF-THE-DRIVER". Run by checks.py; needs no MPI job.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "../mpi/gpu.hpp"
#include "device/device.hpp"

namespace {

using Question = int(void*, int, unsigned long long);
constexpr long kTimes = 200000;

template <typename Ask>
double best_nanoseconds(Ask ask) {
    double best = 1e30;
    for (int run = 0; run < 7; ++run) {
        const auto start = std::chrono::steady_clock::now();
        long found = 0;
        for (long i = 0; i < kTimes; ++i)
            found += ask(i % 64);
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        if (found != 0 && found != kTimes)
            std::_Exit(1);  // the answer may not change from byte to byte
        best = std::min(best, took.count() / kTimes);
    }
    return best;
}

void measure(const char* state, gpu::Kind kind) {
    const gpu::Memory memory(kind, 4096);
    Question* question = gpu::Driver::get().call<Question>("cuPointerGetAttribute");
    const double ours = best_nanoseconds([&](long i) { return swy::device::on_device(memory.at(0) + i) ? 1 : 0; });
    const double theirs = best_nanoseconds([&](long i) {
        unsigned type = 0;
        const auto address = reinterpret_cast<unsigned long long>(memory.at(0) + i);
        return question(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == 0 && type != 0 ? 1 : 0;
    });
    std::printf("%s %s %.2f %.2f\n", state, gpu::name(kind), ours, theirs);
}

}  // namespace

int main() {
    gpu::Driver& driver = gpu::Driver::get();
    if (driver.devices == 0) {
        std::fprintf(stderr, "no device\n");
        return 77;
    }
    if (!swy::device::adopt_loaded_driver())
        return 1;
    measure("no-context", gpu::Kind::kHost);
    driver.use(0);
    for (const gpu::Kind kind : gpu::kKinds)
        measure("context", kind);
    return 0;
}
