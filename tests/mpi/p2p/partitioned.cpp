// Partitioned point-to-point (MPI 4.0 chapter 4) between memory of every kind, with other numbers of partitions on both
// sides, marked ready in any order, asked for one by one or waited for together; an MPI without it skips this.
// clang-format off
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x VGPU_JITTER=5
// launch: -n 2 --gpus 0
// test-timeout: 120
// clang-format on

#include <mpi.h>

#if OMPI_MAJOR_VERSION < 5
int main() {
    return 77;  // the test frame's "skipped"
}
#else

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../gpu.hpp"

namespace {

int failures = 0;

constexpr int kPartitions = 6, kRounds = 3;

// A partition is `count` elements of two doubles with a gap of one: 12 of them, or 30000, which is far beyond what is
// sent at once.
struct Case {
    gpu::Kind sender, receiver;
    int count;
    bool gaps;
};

std::vector<std::byte> values(std::size_t doubles, int round) {
    std::vector<std::byte> bytes(doubles * sizeof(double));
    for (std::size_t i = 0; i < doubles; ++i) {
        const double value = static_cast<double>(i) + 0.25 * round;
        std::memcpy(bytes.data() + i * sizeof(double), &value, sizeof value);
    }
    return bytes;
}

MPI_Datatype make_type(bool gaps) {
    MPI_Datatype pair = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
    MPI_Type_create_resized(pair, 0, static_cast<MPI_Aint>((gaps ? 3 : 2) * sizeof(double)), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&pair);
    return type;
}

void send(const Case& test, gpu::Memory& memory, std::size_t doubles) {
    MPI_Datatype type = make_type(test.gaps);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Psend_init(memory.address(), kPartitions, test.count, type, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Type_free(&type);
    for (int round = 0; round < kRounds; ++round) {
        memory.write(std::vector<std::byte>(doubles * sizeof(double)));
        MPI_Start(&request);
        memory.write(values(doubles, round));  // the buffer is the program's until a partition is ready
        if (round == 0) {
            MPI_Pready_range(0, kPartitions - 1, request);
        } else if (round == 1) {
            for (int partition = kPartitions - 1; partition >= 0; --partition)
                MPI_Pready(partition, request);
        } else {
            int list[kPartitions] = {3, 0, 5, 1, 4, 2};
            MPI_Pready_list(kPartitions, list, request);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (request == MPI_REQUEST_NULL)
            ++failures;
    }
    MPI_Request_free(&request);
}

bool right(const gpu::Memory& memory, bool gaps, std::size_t first, std::size_t last, int round) {
    const std::vector<std::byte> got = memory.read(), wanted = values(memory.size() / sizeof(double), round);
    for (std::size_t i = first; i < last; ++i) {
        const bool gap = gaps && i % 3 == 2;
        double value = 0, expected = 0;
        std::memcpy(&value, got.data() + i * sizeof value, sizeof value);
        std::memcpy(&expected, wanted.data() + i * sizeof value, sizeof value);
        if (value != (gap ? -1.0 : expected)) {
            std::fprintf(stderr, "round %d: double %zu is %g\n", round, i, value);
            return false;
        }
    }
    return true;
}

void receive(const Case& test, gpu::Memory& memory, std::size_t doubles) {
    constexpr int kHere = kPartitions / 2;
    MPI_Datatype type = make_type(test.gaps);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Precv_init(memory.address(), kHere, 2 * test.count, type, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Type_free(&type);
    std::vector<std::byte> before(doubles * sizeof(double));
    for (std::size_t i = 0; i < doubles; ++i) {
        const double unset = -1;
        std::memcpy(before.data() + i * sizeof unset, &unset, sizeof unset);
    }
    for (int round = 0; round < kRounds; ++round) {
        memory.write(before);
        MPI_Start(&request);
        for (int partition = 0; round > 0 && partition < kHere; ++partition) {
            for (int there = 0; !there;)
                MPI_Parrived(request, partition, &there);
            const std::size_t length = doubles / kHere, first = static_cast<std::size_t>(partition) * length;
            failures += !right(memory, test.gaps, first, first + length, round);
        }
        MPI_Status status;
        MPI_Wait(&request, &status);
        int bytes = 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        const int sent = kPartitions * test.count * 2 * static_cast<int>(sizeof(double));
        if (status.MPI_SOURCE != 0 || status.MPI_TAG != 3 || bytes != sent) {
            ++failures;
            std::fprintf(stderr, "status: source %d, tag %d, %d bytes\n", status.MPI_SOURCE, status.MPI_TAG, bytes);
        }
        failures += !right(memory, test.gaps, 0, doubles, round);
    }
    MPI_Request_free(&request);
}

void run(const Case& test, int rank) {
    const std::size_t doubles = static_cast<std::size_t>(kPartitions * test.count) * (test.gaps ? 3 : 2);
    const gpu::Kind kind = rank == 0 ? test.sender : test.receiver;
    gpu::Memory memory(kind, doubles * sizeof(double));
    const int before = failures;
    if (rank == 0)
        send(test, memory, doubles);
    else
        receive(test, memory, doubles);
    if (failures != before)
        std::fprintf(stderr, "rank %d: from %s to %s, %d elements a partition%s\n", rank, gpu::name(test.sender),
                     gpu::name(test.receiver), test.count, test.gaps ? ", with gaps" : "");
}

// Open MPI 5.0.11 itself takes partitions of a type with gaps from wrong places, so only what never reaches it in that
// form is asked for.
bool can_run(gpu::Kind sender, gpu::Kind receiver, bool gaps, bool gpus) {
    const auto on_device = [](gpu::Kind kind) { return kind == gpu::Kind::kDevice || kind == gpu::Kind::kManaged; };
    const bool on_host = sender == gpu::Kind::kHost && receiver == gpu::Kind::kHost;
    return (gpus || on_host) && (!gaps || (on_device(sender) && on_device(receiver)));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char* count = std::getenv("VGPU_COUNT");
    const bool gpus = count == nullptr || std::atoi(count) > 0;
    if (gpus)
        gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (const gpu::Kind sender : gpu::kKinds)
        for (const gpu::Kind receiver : gpu::kKinds)
            for (const bool gaps : {false, true})
                for (const int elements : {12, 30000})
                    if (can_run(sender, receiver, gaps, gpus))
                        run({sender, receiver, elements, gaps}, rank);
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}

#endif
