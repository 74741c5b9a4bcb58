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

// Whether memory that is mapped into a larger reservation ends where its mapping does. Drivers without virtual memory
// management have none.
bool ends_with_its_mapping() {
    gpu::Driver& driver = gpu::Driver::get();
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    std::size_t unit = 0;
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr reserved = 0;
    if (driver.call<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
            &unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != 0 ||
        driver.call<decltype(cuMemCreate)>("cuMemCreate")(&memory, unit, &properties, 0) != 0)
        return true;
    driver.call<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&reserved, 3 * unit, 0, 0, 0);
    driver.call<decltype(cuMemMap)>("cuMemMap")(reserved + unit, unit, 0, memory, 0);
    const auto at = [&](std::size_t offset) { return reinterpret_cast<void*>(reserved + offset); };
    const swy::device::Location found = swy::device::locate(at(unit + unit / 2));
    const bool right = found.on_device() && found.begin == reserved + unit && found.end == reserved + 2 * unit &&
                       !swy::device::on_device(at(0)) && !swy::device::on_device(at(2 * unit));
    driver.call<decltype(cuMemUnmap)>("cuMemUnmap")(reserved + unit, unit);
    driver.call<decltype(cuMemAddressFree)>("cuMemAddressFree")(reserved, 3 * unit);
    driver.call<decltype(cuMemRelease)>("cuMemRelease")(memory);
    return right;
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
    if (!ends_with_its_mapping()) {
        std::fprintf(stderr, "locations: memory mapped into a larger reservation is found to end elsewhere\n");
        return 1;
    }
    return 0;
}
