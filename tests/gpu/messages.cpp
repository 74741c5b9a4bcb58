// MPI_Send and MPI_Recv of device memory as the library carries them, beside the same made by hand, in one run.
//   messages [--nccl LIBRARY] [--largest BYTES] [--device-per-rank]
// Two ranks. Prints, for sizes from 8 bytes to 256 MiB, "BYTES LIBRARY BY-HAND NCCL" in microseconds for one way of a
// ping-pong, the best of several. By hand: a copy to pinned memory, MPI_Send and MPI_Recv of that, a copy to the
// device. NCCL: ncclSend and ncclRecv on a stream and its synchronisation, "-" without --nccl. Exit 1 when a payload
// does not come as it was. Both ranks use device 0 unless told otherwise.
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "../mpi/gpu.hpp"

namespace {

constexpr std::size_t kSizes[] = {8,       1 << 10, 8 << 10,  32 << 10, 64 << 10, 256 << 10,
                                  1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};
int rank = 0;

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
        if (symbol<decltype(ncclCommInitRank)>("ncclCommInitRank")(&communicator_, 2, id, rank) != ncclSuccess)
            fail("ncclCommInitRank");
        gpu::Driver::check("cuStreamCreate",
                           gpu::Driver::get().call<int(void**, unsigned)>("cuStreamCreate")(&stream_, 1));
        send_ = symbol<decltype(ncclSend)>("ncclSend");
        recv_ = symbol<decltype(ncclRecv)>("ncclRecv");
        synchronize_ = gpu::Driver::get().call<int(void*)>("cuStreamSynchronize");
    }
    Nccl(const Nccl&) = delete;
    Nccl& operator=(const Nccl&) = delete;
    ~Nccl() { symbol<decltype(ncclCommDestroy)>("ncclCommDestroy")(communicator_); }

    void send(const void* data, std::size_t bytes) {
        finish(send_(data, bytes, ncclChar, 1 - rank, communicator_, static_cast<cudaStream_t>(stream_)));
    }
    void receive(void* data, std::size_t bytes) {
        finish(recv_(data, bytes, ncclChar, 1 - rank, communicator_, static_cast<cudaStream_t>(stream_)));
    }

  private:
    void finish(ncclResult_t result) {
        if (result != ncclSuccess || synchronize_(stream_) != 0)
            fail("NCCL");
    }
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
    decltype(ncclSend)* send_ = nullptr;
    decltype(ncclRecv)* recv_ = nullptr;
    int (*synchronize_)(void*) = nullptr;
};

std::vector<std::byte> content(std::size_t bytes, int of) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        data[i] = static_cast<std::byte>((i * 2654435761u + static_cast<unsigned>(of) * 97u) >> 13);
    return data;
}

struct Buffers {
    gpu::Memory out, in, pinned;
    explicit Buffers(std::size_t bytes)
        : out(gpu::Kind::kDevice, content(bytes, rank)),
          in(gpu::Kind::kDevice, bytes),
          pinned(gpu::Kind::kPinned, bytes) {}
};

// Rank 0 sends first. The first rounds are not timed: communicators and pinned memory are made in them.
template <typename Send, typename Receive>
double best_microseconds(Buffers& b, std::size_t bytes, const char* what, Send send, Receive receive) {
    constexpr int kWarmUp = 20;
    b.in.write(std::vector<std::byte>(bytes));
    const int times = bytes <= 65536 ? 200 : bytes <= (4u << 20) ? 30 : 8;
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < kWarmUp + times; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        if (rank == 0)
            send();
        receive();
        if (rank == 1)
            send();
        if (i >= kWarmUp)
            best = std::min(best, (MPI_Wtime() - start) / 2 * 1e6);
    }
    if (b.in.read() != content(bytes, 1 - rank))
        fail(what);
    return best;
}

void measure(std::size_t bytes, Nccl* nccl) {
    Buffers b(bytes);
    const int count = static_cast<int>(bytes);
    gpu::Driver& driver = gpu::Driver::get();
    const int peer = 1 - rank;
    const double library = best_microseconds(
        b, bytes, "the library's payload is wrong",
        [&] { MPI_Send(b.out.at(0), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD); },
        [&] { MPI_Recv(b.in.at(0), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); });
    const double by_hand = best_microseconds(
        b, bytes, "the payload by hand is wrong",
        [&] {
            driver.copy(b.pinned.at(0), b.out.at(0), bytes);
            MPI_Send(b.pinned.at(0), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        },
        [&] {
            MPI_Recv(b.pinned.at(0), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            driver.copy(b.in.at(0), b.pinned.at(0), bytes);
        });
    const double direct = nccl == nullptr
                              ? 0
                              : best_microseconds(
                                    b, bytes, "NCCL's payload is wrong", [&] { nccl->send(b.out.at(0), bytes); },
                                    [&] { nccl->receive(b.in.at(0), bytes); });
    if (rank != 0)
        return;
    std::printf("%zu %.2f %.2f ", bytes, library, by_hand);
    std::printf(nccl == nullptr ? "-\n" : "%.2f\n", direct);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        fail("two ranks are wanted");
    const char* library = nullptr;
    std::size_t largest = 256u << 20;
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
