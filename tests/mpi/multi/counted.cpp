// What the extension's collectives on several buffers of each process cost; counted.test reads the virtual GPUs' log
// and the report. The first rank has no buffer, the others have two devices each. Options: --rounds N; --use calls (N
// of each, blocking and not, on one communicator), messages (N from the second rank to the third, and back), begun (N
// that do not block) or communicators (made, used and freed N times: memory and file descriptors are the same after all
// rounds as after the first).
#include <dirent.h>
#include <malloc.h>
#include <mpi.h>
#include <mpix_switchyard.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kFirstRounds = 50, kCount = 2000, kDevices = 2;

int rank = 0, size = 0, failures = 0;

struct Cost {
    long descriptors = 0;
    std::size_t heap = 0, device_free = 0;
};

Cost cost() {
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

class Buffers {
  public:
    Buffers() {
        for (int i = 0; i < (rank == 0 ? 0 : kDevices); ++i) {
            gpu::Driver::get().use((rank - 1) * kDevices + i);
            memory_.emplace_back(gpu::Kind::kDevice, kCount * sizeof(int));
            addresses_.push_back(memory_.back().address());
        }
    }
    int number() const { return static_cast<int>(addresses_.size()); }
    void* const* list() const { return addresses_.data(); }

    void fill() {
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            const std::vector<int> values(kCount, (rank - 1) * kDevices + static_cast<int>(i) + 1);
            const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
            memory_[i].write({bytes, bytes + kCount * sizeof(int)});
        }
    }
    void expect(int value, const char* what) const {
        for (const gpu::Memory& memory : memory_) {
            const std::vector<std::byte> bytes = memory.read();
            const int* found = reinterpret_cast<const int*>(bytes.data());
            if (found[0] == value && found[kCount - 1] == value)
                continue;
            std::printf("rank %d: %s gave %d, not %d\n", rank, what, found[0], value);
            ++failures;
        }
    }

    void expect_each(const std::vector<int>& values) const {
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            const std::vector<std::byte> bytes = memory_[i].read();
            const int* found = reinterpret_cast<const int*>(bytes.data());
            if (found[0] == values[i] && found[kCount - 1] == values[i])
                continue;
            std::printf("rank %d: buffer %zu has %d, not %d\n", rank, i, found[0], values[i]);
            ++failures;
        }
    }

  private:
    std::vector<gpu::Memory> memory_;
    std::vector<void*> addresses_;
};

void* const* in_place() {
    return static_cast<void* const*>(MPI_IN_PLACE);
}

// Every place has its number plus one.
int sum() {
    const int places = (size - 1) * kDevices;
    return places * (places + 1) / 2;
}

void round(Buffers& buffers, MPI_Comm comm) {
    const int n = buffers.number();
    buffers.fill();
    MPIX_Allreduce_multi(in_place(), buffers.list(), n, kCount, MPI_INT, MPI_SUM, comm);
    buffers.expect(sum(), "MPIX_Allreduce_multi");
    MPIX_Bcast_multi(buffers.list(), n, kCount, MPI_INT, 1, comm);
    buffers.fill();
    MPI_Request request = MPI_REQUEST_NULL;
    MPIX_Iallreduce_multi(in_place(), buffers.list(), n, kCount, MPI_INT, MPI_MAX, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    buffers.expect((size - 1) * kDevices, "MPIX_Iallreduce_multi");
}

// The communicator has no other call than this.
void begin_alone(Buffers& buffers) {
    buffers.fill();
    MPI_Request request = MPI_REQUEST_NULL;
    MPIX_Iallreduce_multi(in_place(), buffers.list(), buffers.number(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                          &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    buffers.expect(sum(), "MPIX_Iallreduce_multi alone");
}

// Every other one does not block.
void exchange(Buffers& buffers, int number) {
    buffers.fill();
    const int n = buffers.number(), peer = 3 - rank;
    MPI_Request request = MPI_REQUEST_NULL;
    for (int sender = 1; rank > 0 && sender < size; ++sender) {
        if (sender == rank && number % 2 == 0)
            MPIX_Send_multi(buffers.list(), n, kCount, MPI_INT, peer, 0, MPI_COMM_WORLD);
        else if (sender == rank)
            MPIX_Isend_multi(buffers.list(), n, kCount, MPI_INT, peer, 0, MPI_COMM_WORLD, &request);
        else if (number % 2 == 0)
            MPIX_Recv_multi(buffers.list(), n, kCount, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPIX_Irecv_multi(buffers.list(), n, kCount, MPI_INT, peer, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    // What the second rank had came back, and the third one has it too.
    buffers.expect_each({1, 2});
}

void compare(const char* what, long first, long last, long allowed) {
    if (last - first <= allowed)
        return;
    std::printf("rank %d: %s grew from %ld to %ld\n", rank, what, first, last);
    ++failures;
}

void communicators(Buffers& buffers, int rounds) {
    Cost first = cost();  // the first question opens files itself
    for (int i = 0; i < rounds; ++i) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        round(buffers, comm);
        MPI_Comm_free(&comm);
        if (i == kFirstRounds - 1)
            first = cost();
    }
    const Cost last = cost();
    constexpr long kSlack = 64 << 10;  // a state lost in each round would be several hundred bytes each
    std::printf("rank %d: heap %zu after %d rounds, %zu after %d\n", rank, first.heap, kFirstRounds, last.heap, rounds);
    compare("the number of file descriptors", first.descriptors, last.descriptors, 0);
    compare("the heap", static_cast<long>(first.heap), static_cast<long>(last.heap), kSlack);
    compare("device memory", -static_cast<long>(first.device_free), -static_cast<long>(last.device_free), 0);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = 10;
    std::string_view use = "calls";
    for (int i = 1; i + 1 < argc; i += 2)
        if (std::string_view(argv[i]) == "--rounds")
            rounds = std::atoi(argv[i + 1]);
        else
            use = argv[i + 1];
    gpu::Driver::get().use(0);
    {
        Buffers buffers;
        if (use == "communicators")
            communicators(buffers, rounds);
        for (int i = 0; use == "calls" && i < rounds; ++i)
            round(buffers, MPI_COMM_WORLD);
        for (int i = 0; use == "messages" && i < rounds; ++i)
            exchange(buffers, i);
        for (int i = 0; use == "begun" && i < rounds; ++i)
            begin_alone(buffers);
    }
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
