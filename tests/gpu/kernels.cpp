// How fast the library's kernels are, beside the driver's copies of the same bytes, in one run.
//   kernels [--largest BYTES]
// One process. Prints "BLOCK KERNEL COPY-2D COPY LOCKED LOCKED-2D" for blocks of 4 bytes to 4 KiB, one in every two: a
// packing kernel, cuMemcpy2DAsync and a plain copy within the device, then the kernel and cuMemcpy2DAsync to
// page-locked memory; and "reduce-TYPE KERNEL COPY" for sums of two arrays. All in GB/s of packed bytes, the best of
// several; the device reads and writes each byte of a copy once, and reads two and writes one for a sum.
#include <cuda.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "../mpi/gpu.hpp"
#include "datatype/layout.hpp"
#include "datatype/plan.hpp"
#include "datatype/reduction.hpp"
#include "device/device.hpp"
#include "pack/kernel_pack.hpp"

namespace {

using swy::device::Stream;

constexpr int kRuns = 5, kRepeats = 10;

void must(swy::device::Result result) {
    if (result == 0)
        return;
    std::fprintf(stderr, "kernels: %s\n", swy::device::describe(result).c_str());
    std::exit(1);
}

// GB/s of `bytes` for each repetition of what `queue` queues.
template <typename Queue>
double speed(Stream& lane, std::size_t bytes, Queue queue) {
    double best = 1e30;
    for (int run = 0; run < kRuns; ++run) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kRepeats; ++i)
            must(queue());
        must(lane.record());
        for (bool done = false; !done;)
            must(lane.query(done));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::min(best, took.count() / kRepeats);
    }
    return static_cast<double>(bytes) / best / 1e9;
}

void pack(Stream& lane, std::size_t bytes, int block) {
    using swy::pack::Direction;
    const int blocks = static_cast<int>(bytes / static_cast<std::size_t>(block));
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_hvector(blocks, block, 2 * block, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    const auto layout = swy::datatype::layout_of(type);
    const gpu::Memory spread(gpu::Kind::kDevice, 2 * bytes), packed(gpu::Kind::kDevice, bytes),
        locked(gpu::Kind::kPinned, bytes);
    const auto width = static_cast<std::size_t>(block), rows = static_cast<std::size_t>(blocks);
    const auto kernel = [&](const gpu::Memory& to) {
        return speed(lane, bytes, [&] {
            return swy::pack::queue_kernel(lane, Direction::kToHost,
                                           {layout.get(), 1, reinterpret_cast<std::uintptr_t>(spread.address())}, 0,
                                           bytes, static_cast<std::byte*>(to.address()));
        });
    };
    const auto copy_2d = [&](const gpu::Memory& to) {
        return speed(lane, bytes,
                     [&] { return lane.copy_2d(to.address(), width, spread.address(), 2 * width, width, rows); });
    };
    const double plain = speed(lane, bytes, [&] { return lane.copy(packed.address(), spread.address(), bytes); });
    std::printf("%d %.2f %.2f %.2f %.2f %.2f\n", block, kernel(packed), copy_2d(packed), plain, kernel(locked),
                copy_2d(locked));
    MPI_Type_free(&type);
}

void reduce(Stream& lane, std::size_t bytes, MPI_Datatype type, const char* name) {
    swy::datatype::Reduction what;
    if (!swy::datatype::find_reduction(type, MPI_SUM, what))
        std::exit(1);
    const gpu::Memory in(gpu::Kind::kDevice, std::vector<std::byte>(bytes)),
        out(gpu::Kind::kDevice, std::vector<std::byte>(bytes));
    swy::datatype::ReduceWork work{reinterpret_cast<std::uintptr_t>(in.address()),
                                   reinterpret_cast<std::uintptr_t>(out.address()), bytes / what.bytes, what.op};
    const auto kernel = static_cast<swy::device::Kernel>(static_cast<int>(swy::device::Kernel::kReduceInt8) +
                                                         static_cast<int>(what.type));
    const double reduced = speed(lane, bytes, [&] { return lane.launch(kernel, work.count, &work); });
    const double plain = speed(lane, bytes, [&] { return lane.copy(out.address(), in.address(), bytes); });
    std::printf("reduce-%s %.2f %.2f\n", name, reduced, plain);
}

// The driver may take the first image alone; the last one is for those that do not.
bool driver_takes_every_image() {
    bool all = true;
    for (const swy::device::KernelImage& image : swy::device::kernel_images()) {
        void* module = nullptr;
        const int result = gpu::Driver::get().call<int(void**, const void*)>("cuModuleLoadData")(&module, image.data);
        if (result != 0)
            std::fprintf(stderr, "kernels: %s: %s\n", image.what, swy::device::describe(result).c_str());
        else
            must(gpu::Driver::get().call<int(void*)>("cuModuleUnload")(module));
        all = all && result == 0;
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    std::size_t bytes = std::size_t{64} << 20;
    for (int i = 1; i + 1 < argc; ++i)
        if (std::string_view(argv[i]) == "--largest")
            bytes = std::min<std::size_t>(bytes, std::strtoull(argv[i + 1], nullptr, 10));
    gpu::Driver::get().use(0);
    if (!swy::device::adopt_loaded_driver())
        return 1;
    Stream lane;
    must(Stream::acquire(swy::device::current_device().context, lane));
    if (!lane.has_kernels()) {
        std::fprintf(stderr, "kernels: the library has none for this GPU\n");
        return 1;
    }
    if (!driver_takes_every_image())
        return 1;
    for (int block = 4; block <= 4096; block *= block < 512 ? 2 : 8)
        pack(lane, bytes, block);
    reduce(lane, bytes, MPI_SHORT, "int16");
    reduce(lane, bytes, MPI_FLOAT, "float");
    reduce(lane, bytes, MPI_C_DOUBLE_COMPLEX, "complex");
    MPI_Finalize();
    return 0;
}
