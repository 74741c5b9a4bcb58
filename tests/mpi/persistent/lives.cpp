// The lives of persistent collectives on device memory: inactive, active, completed and started again, freed in either
// state; what they were made with may go before they do; mistakes are errors. Against arithmetic. With --fault an NCCL
// call fails on one rank: all ranks' starts fail, and the next ones work.
// clang-format off
// launch: -n 2 --gpus 3 --relinked
// launch: -n 4 --gpus 5 --relinked -x VGPU_JITTER=6
// launch: -n 3 --gpus 4 --relinked -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_SYNC=device
// launch: -n 3 --gpus 3 --relinked -x VGPU_FAULTS=ncclAllReduce[1]@3=ncclInternalError -x SWITCHYARD_TIMEOUT=20 -- --fault
// test-timeout: 60
// clang-format on
#include <mpi.h>
#include <mpix_switchyard.h>
#include <unistd.h>

#include <mpi-ext.h>  // needs mpi.h

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#define INIT(name) MPIX_##name##_init
#endif

namespace {

constexpr int kCount = 40000;

int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

template <typename T>
void fill(gpu::Memory& memory, T value) {
    const std::vector<T> values(memory.size() / sizeof(T), value);
    std::vector<std::byte> bytes(memory.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    memory.write(bytes);
}

template <typename T>
gpu::Memory filled(gpu::Kind kind, T value, int count = kCount) {
    gpu::Memory memory(kind, static_cast<std::size_t>(count) * sizeof(T));
    fill(memory, value);
    return memory;
}

template <typename T>
bool all_are(const gpu::Memory& memory, T value) {
    const std::vector<std::byte> bytes = memory.read();
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (const T& found : values)
        if (found != value)
            return false;
    return true;
}

int class_of(int code) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

double ranks_sum() {
    return size * (size + 1) / 2.0;
}

struct Sum {
    gpu::Memory from = filled(gpu::Kind::kDevice, rank + 1.0), to = filled(gpu::Kind::kDevice, 0.0);
    MPI_Request request = MPI_REQUEST_NULL;
    explicit Sum(MPI_Comm comm) {
        INIT(Allreduce)
        (from.at(0), to.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request);
    }
};

void expect_empty(const MPI_Status& status, const std::string& what) {
    int elements = -1;
    MPI_Get_elements(&status, MPI_BYTE, &elements);
    expect(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && elements == 0,
           what + ": no empty status");
}

void inactive_ones() {
    Sum sum(MPI_COMM_WORLD);
    int flag = 0, index = 0;
    MPI_Status status{};
    MPI_Test(&sum.request, &flag, &status);
    expect(flag != 0, "a test of an inactive request is false");
    expect_empty(status, "a test of an inactive request");
    MPI_Wait(&sum.request, &status);
    expect_empty(status, "a wait for an inactive request");
    flag = 0;
    MPI_Request_get_status(sum.request, &flag, &status);
    expect(flag != 0, "an inactive request is not complete");
    MPI_Waitany(1, &sum.request, &index, &status);
    expect(index == MPI_UNDEFINED, "an inactive request counts among several");
    expect(all_are(sum.to, 0.0), "an inactive one has a result");
    MPI_Request_free(&sum.request);
    expect(sum.request == MPI_REQUEST_NULL, "a freed request has a handle");
}

void starts_again() {
    Sum sum(MPI_COMM_WORLD);
    for (int round = 1; round <= 4; ++round) {
        fill(sum.from, (rank + 1.0) * round);
        MPI_Start(&sum.request);
        const int code = MPI_Start(&sum.request);
        expect(class_of(code) == MPI_ERR_REQUEST, "an active request may be started: " + text_of(code));
        MPI_Status status{};
        MPI_Wait(&sum.request, &status);
        expect_empty(status, "a wait");
        expect(all_are(sum.to, ranks_sum() * round), "a sum, start " + std::to_string(round));
    }
    MPI_Request_free(&sum.request);
}

// The operation goes on: the program sees its result, as its own calls of MPI move it on.
void freed_while_active() {
    Sum sum(MPI_COMM_WORLD);
    MPI_Start(&sum.request);
    MPI_Request_free(&sum.request);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    int flag = 0;
    while (!all_are(sum.to, ranks_sum()) && std::chrono::steady_clock::now() < end)
        MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    expect(all_are(sum.to, ranks_sum()), "a sum whose request has been freed");
    MPI_Barrier(MPI_COMM_WORLD);
}

// One rank starts late: the others free the communicator meanwhile.
void freed_communicators() {
    for (int round = 0; round < 6; ++round) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        Sum sum(comm), other(comm);
        const bool host = round % 2 == 1 && rank == 0;
        const gpu::Memory mixed = filled(host ? gpu::Kind::kHost : gpu::Kind::kDevice, rank == 0 ? 7 : -1, 2 * kCount);
        MPI_Request broadcast = MPI_REQUEST_NULL;
        INIT(Bcast)(mixed.at(0), 2 * kCount, MPI_INT, 0, comm, MPI_INFO_NULL, &broadcast);
        if (rank == round % size)
            usleep(20000);
        MPI_Start(&sum.request);
        MPI_Start(&broadcast);
        MPI_Wait(&broadcast, MPI_STATUS_IGNORE);
        MPI_Comm_free(&comm);
        MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
        expect(all_are(sum.to, ranks_sum()), "a sum on a freed communicator");
        expect(all_are(mixed, 7), "a broadcast before");
        const int code = MPI_Start(&other.request);
        expect(class_of(code) == MPI_ERR_REQUEST && text_of(code).find("has been freed") != std::string::npos,
               "a start on a freed communicator: " + text_of(code));
        MPI_Request_free(&broadcast);
        MPI_Request_free(&sum.request);
        MPI_Request_free(&other.request);
    }
}

void freed_types() {
    const gpu::Memory values = filled(gpu::Kind::kDevice, rank == 0 ? 5 : -1, 2 * kCount);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(kCount, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Request request = MPI_REQUEST_NULL;
    INIT(Bcast)(values.at(0), 1, type, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Type_free(&type);
    MPI_Type_vector(3, 1, 7, MPI_DOUBLE, &type);  // takes the freed type's place in MPI's table
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    MPI_Request_free(&request);
    const std::vector<std::byte> bytes = values.read();
    std::vector<int> found(2 * kCount);
    std::memcpy(found.data(), bytes.data(), bytes.size());
    bool right = true;
    for (std::size_t i = 0; i < found.size(); ++i)
        right &= found[i] == (i % 2 == 0 || rank == 0 ? 5 : -1);
    expect(right, "a broadcast of a type that has been freed");
}

void extensions() {
    constexpr std::uint16_t kOne = 0x3c00;  // IEEE 754 binary16
    constexpr std::uint16_t kSums[] = {0, kOne, 0x4000, 0x4200, 0x4400};
    for (const bool mixed : {false, true}) {
        const gpu::Kind kind = mixed && rank == size - 1 ? gpu::Kind::kHost : gpu::Kind::kDevice;
        const gpu::Memory halves = filled(kind, kOne), sums = filled(kind, std::uint16_t{0});
        const gpu::Memory numbers = filled(kind, 2.0 * rank), means = filled(kind, 0.0);
        MPI_Request requests[2];
        INIT(Allreduce)
        (halves.at(0), sums.at(0), kCount, MPIX_FLOAT16, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        INIT(Allreduce)
        (numbers.at(0), means.at(0), kCount, MPI_DOUBLE, MPIX_AVG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        for (int round = 0; round < 2; ++round) {
            MPI_Startall(2, requests);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            expect(all_are(sums, kSums[size]), "a sum of MPIX_FLOAT16");
            expect(all_are(means, size - 1.0), "an average");
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}

// Between the starts of different ranks the communicator gets another NCCL communicator.
void another_device() {
    gpu::Driver::get().use(size);  // nobody's yet
    const gpu::Memory elsewhere = filled(gpu::Kind::kDevice, 1.0);
    gpu::Driver::get().use(rank);
    const gpu::Memory here = filled(gpu::Kind::kDevice, 1.0);
    for (int round = 0; round < 4; ++round) {
        Sum sum(MPI_COMM_WORLD);
        const bool before = (rank + round) % 2 == 0;
        if (before)
            MPI_Start(&sum.request);
        const bool moved = rank == 0 && round % 2 == 0;
        MPI_Allreduce(MPI_IN_PLACE, (moved ? elsewhere : here).at(0), kCount, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (!before)
            MPI_Start(&sum.request);
        MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
        expect(all_are(sum.to, ranks_sum()), "a sum beside a set-up");
        MPI_Request_free(&sum.request);
    }
}

void mismatch(const char* what, const std::function<int(MPI_Request*)>& make, const std::vector<std::string>& words) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = make(&request);
    expect(class_of(code) == MPI_ERR_OTHER, std::string(what) + ": " + text_of(code));
    for (const std::string& word : words)
        expect(text_of(code).find(word) != std::string::npos,
               std::string(what) + ": no " + word + " in " + text_of(code));
}

void mistakes() {
    const gpu::Memory a = filled(gpu::Kind::kDevice, 1.0), b = filled(gpu::Kind::kDevice, 1.0);
    mismatch("different roots",
             [&](MPI_Request* request) {
                 return INIT(Bcast)(a.at(0), kCount, MPI_DOUBLE, rank == 0 ? 0 : 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                                    request);
             },
             {"Bcast_init", "root 0", "root 1"});
    mismatch("a persistent one and one that blocks",
             [&](MPI_Request* request) {
                 return rank == 0 ? MPI_Allreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)
                                  : INIT(Allreduce)(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                                                    MPI_INFO_NULL, request);
             },
             {"rank 0: MPI_Allreduce number", "Allreduce_init number"});
    Sum sum(MPI_COMM_WORLD);
    MPI_Start(&sum.request);
    MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
    expect(all_are(sum.to, ranks_sum()), "a sum after mismatches");
    MPI_Request_free(&sum.request);
}

void fault() {
    Sum sum(MPI_COMM_WORLD);
    int failed = 0;
    for (int round = 1; round <= 6; ++round) {
        fill(sum.from, (rank + 1.0) * round);
        MPI_Start(&sum.request);
        const int code = MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS) {
            expect(all_are(sum.to, ranks_sum() * round), "a sum beside a fault");
            continue;
        }
        ++failed;
        expect(round == 3 && text_of(code).find("ncclInternalError") != std::string::npos,
               "start " + std::to_string(round) + ": " + text_of(code));
    }
    expect(failed == 1, std::to_string(failed) + " starts have failed");
    MPI_Request_free(&sum.request);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 1 && std::string_view(argv[1]) == "--fault") {
        fault();
    } else {
        inactive_ones();
        starts_again();
        freed_while_active();
        freed_communicators();
        freed_types();
        extensions();
        another_device();
        mistakes();
    }
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
