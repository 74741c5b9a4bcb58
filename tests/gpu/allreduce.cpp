// MPI_Allreduce of floats on device memory as the library carries it, beside the same sum made by hand, in one run.
//   allreduce [--nccl LIBRARY] [--largest BYTES] [--device-per-rank]
// Prints, for sizes from 8 bytes to 64 MiB, "BYTES LIBRARY BY-HAND NCCL" in microseconds, the best of several calls on
// the slowest rank. By hand: a copy to pinned memory, MPI_Allreduce on that, a copy back. NCCL: ncclAllReduce on a
// stream and its synchronisation, "-" without --nccl. Exit 1 when a sum is wrong. All ranks use device 0 unless told
// otherwise.
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string_view>

#include "../mpi/gpu.hpp"

namespace {

constexpr std::size_t kSizes[] = {8,         1 << 10, 8 << 10, 32 << 10, 64 << 10,
                                  256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
int rank = 0, size = 0;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
}

// NCCL, called as an application calls it.
class Nccl {
  public:
    explicit Nccl(const char* library) : handle_(dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
        if (handle_ == nullptr)
            fail(dlerror());
        ncclUniqueId id{};
        if (rank == 0 && symbol<decltype(ncclGetUniqueId)>("ncclGetUniqueId")(&id) != ncclSuccess)
            fail("ncclGetUniqueId");
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (symbol<decltype(ncclCommInitRank)>("ncclCommInitRank")(&communicator_, size, id, rank) != ncclSuccess)
            fail("ncclCommInitRank");
        gpu::Driver::check("cuStreamCreate",
                           gpu::Driver::get().call<int(void**, unsigned)>("cuStreamCreate")(&stream_, 1));
        all_reduce_ = symbol<decltype(ncclAllReduce)>("ncclAllReduce");
        synchronize_ = gpu::Driver::get().call<int(void*)>("cuStreamSynchronize");
    }
    Nccl(const Nccl&) = delete;
    Nccl& operator=(const Nccl&) = delete;
    ~Nccl() { symbol<decltype(ncclCommDestroy)>("ncclCommDestroy")(communicator_); }

    void sum(const void* send, void* recv, std::size_t count) {
        if (all_reduce_(send, recv, count, ncclFloat, ncclSum, communicator_, static_cast<cudaStream_t>(stream_)) !=
                ncclSuccess ||
            synchronize_(stream_) != 0)
            fail("ncclAllReduce");
    }

  private:
    template <typename F>
    F* symbol(const char* name) {
        void* found = dlsym(handle_, name);
        if (found == nullptr)
            fail(name);
        return reinterpret_cast<F*>(found);
    }
    void* handle_;
    void* stream_ = nullptr;
    ncclComm_t communicator_ = nullptr;
    decltype(ncclAllReduce)* all_reduce_ = nullptr;
    int (*synchronize_)(void*) = nullptr;
};

struct Buffers {
    gpu::Memory send, recv, in, out;
    explicit Buffers(std::size_t bytes)
        : send(gpu::Kind::kDevice, bytes),
          recv(gpu::Kind::kDevice, bytes),
          in(gpu::Kind::kPinned, bytes),
          out(gpu::Kind::kPinned, bytes) {
        const float mine = static_cast<float>(rank + 1);
        for (std::size_t i = 0; i < bytes; i += sizeof mine)
            std::memcpy(in.at(i), &mine, sizeof mine);
        gpu::Driver::get().copy(send.at(0), in.at(0), bytes);
    }
    void clear(std::size_t bytes) {
        std::memset(out.at(0), 0, bytes);
        gpu::Driver::get().copy(recv.at(0), out.at(0), bytes);
    }
    bool right(std::size_t bytes) {
        gpu::Driver::get().copy(out.at(0), recv.at(0), bytes);
        const float sum = static_cast<float>(size * (size + 1)) / 2;
        for (std::size_t i = 0; i < bytes; i += sizeof sum) {
            float value = 0;
            std::memcpy(&value, out.at(i), sizeof value);
            if (value != sum)
                return false;
        }
        return true;
    }
};

// The first call is not timed: communicators and pinned memory are made in it.
template <typename Sum>
double best_microseconds(Buffers& buffers, std::size_t bytes, const char* what, Sum sum) {
    buffers.clear(bytes);
    sum();
    if (!buffers.right(bytes))
        fail(what);
    const int times = bytes <= 65536 ? 200 : bytes <= (4u << 20) ? 30 : 8;
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < times; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        sum();
        double took = MPI_Wtime() - start;
        MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        best = std::min(best, took * 1e6);
    }
    return best;
}

void measure(std::size_t bytes, Nccl* nccl) {
    Buffers b(bytes);
    const int count = static_cast<int>(bytes / sizeof(float));
    gpu::Driver& driver = gpu::Driver::get();
    const double library = best_microseconds(b, bytes, "the library's sum is wrong", [&] {
        MPI_Allreduce(b.send.at(0), b.recv.at(0), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    const double by_hand = best_microseconds(b, bytes, "the sum by hand is wrong", [&] {
        driver.copy(b.in.at(0), b.send.at(0), bytes);
        MPI_Allreduce(b.in.at(0), b.out.at(0), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        driver.copy(b.recv.at(0), b.out.at(0), bytes);
    });
    const double direct = nccl == nullptr ? 0 : best_microseconds(b, bytes, "NCCL's sum is wrong", [&] {
        nccl->sum(b.send.at(0), b.recv.at(0), static_cast<std::size_t>(count));
    });
    if (rank != 0)
        return;
    std::printf("%zu %.2f %.2f ", bytes, library, by_hand);
    std::printf(nccl == nullptr ? "-\n" : "%.2f\n", direct);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char* library = nullptr;
    std::size_t largest = 64u << 20;
    bool device_per_rank = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--nccl" && i + 1 < argc)
            library = argv[++i];
        else if (option == "--largest" && i + 1 < argc)
            largest = std::strtoull(argv[++i], nullptr, 10);
        else if (option == "--device-per-rank")
            device_per_rank = true;
    }
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(device_per_rank ? rank % driver.devices : 0);
    {
        std::unique_ptr<Nccl> nccl = library == nullptr ? nullptr : std::make_unique<Nccl>(library);
        for (const std::size_t bytes : kSizes)
            if (bytes <= largest)
                measure(bytes, nccl.get());
    }
    MPI_Finalize();
    return 0;
}
