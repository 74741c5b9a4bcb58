// SWITCHYARD_TIMEOUT and a collective for which one rank comes too late or never, one that does not block or the start
// of a persistent one: an error on those that wait, which names who is missing, and on the one that is late, and later
// calls are right again. With --forgotten nobody waits for it, and MPI_Finalize ends all the same. With --blocking the
// last rank never makes it, with --late-blocking it comes late.
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=2
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=2 -- --one-has-host-memory
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=2 -- --persistent
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=1 -- --blocking
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=2 -- --late-blocking
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=2 -x SWITCHYARD_AGREE=mpi -- --late-blocking
// launch: -n 2 --gpus 2 -x SWITCHYARD_TIMEOUT=1 -- --forgotten
// test-timeout: 60
#include <mpi.h>

#include <mpi-ext.h>  // needs mpi.h

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#define INIT(name) MPIX_##name##_init
#endif

namespace {

constexpr int kCount = 30000;  // of doubles: above the threshold
int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what.c_str());
    ++failures;
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

int class_of(int code) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

bool has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

// A sum over the ranks, and what it needs.
class Sum {
  public:
    explicit Sum(gpu::Kind kind) : mine_(kind, bytes()), all_(kind, kCount * sizeof(double)) {}

    void begin(MPI_Comm comm) { MPI_Iallreduce(mine_.at(0), all_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm, &request_); }
    int wait() { return MPI_Wait(&request_, MPI_STATUS_IGNORE); }
    void begin_and_wait(MPI_Comm comm) {
        begin(comm);
        check(wait());
    }
    int try_block(MPI_Comm comm) { return MPI_Allreduce(mine_.at(0), all_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm); }
    int try_another(MPI_Comm comm) { return MPI_Bcast(all_.at(0), kCount, MPI_DOUBLE, 0, comm); }
    void block(MPI_Comm comm) { check(try_block(comm)); }

    void make(MPI_Comm comm) {
        INIT(Allreduce)(mine_.at(0), all_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request_);
    }
    int start() { return MPI_Start(&request_); }
    void start_and_wait() {
        expect(start() == MPI_SUCCESS, "a start");
        check(wait());
    }
    MPI_Request& request() { return request_; }

  private:
    static std::vector<std::byte> bytes() {
        const std::vector<double> values(kCount, rank + 1.0);
        std::vector<std::byte> all(kCount * sizeof(double));
        std::memcpy(all.data(), values.data(), all.size());
        return all;
    }
    void check(int code) const {
        expect(code == MPI_SUCCESS, "a sum that all ranks call: " + text_of(code));
        std::vector<double> values(kCount);
        std::memcpy(values.data(), all_.read().data(), kCount * sizeof(double));
        expect(values[0] == size * (size + 1) / 2.0 && values[kCount - 1] == values[0], "the sum's value");
    }

    const gpu::Memory mine_, all_;
    MPI_Request request_ = MPI_REQUEST_NULL;
};

// The blocking call has what comes after it agree.
MPI_Comm make(Sum& sum) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    sum.block(comm);
    return comm;
}

// What the errors say where it is the last of three ranks that is late.
constexpr const char* kWaited = "SWITCHYARD_TIMEOUT (2 s) has passed before all ranks entered the call";
constexpr const char* kMissing = "with no sign of rank 2";

void given_up(Sum& device, Sum& sum) {
    MPI_Comm comm = make(device), lost = make(device);
    const bool late = rank == size - 1;
    if (!late) {
        const double start = MPI_Wtime();
        sum.begin(comm);
        const std::string said = text_of(sum.wait());
        expect(has(said, "MPI_Iallreduce on rank") && has(said, kWaited) && has(said, kMissing),
               "the error of who waits: " + said);
        expect(MPI_Wtime() - start > 1.9, "it has waited");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (late) {
        sum.begin(comm);
        const std::string said = text_of(sum.wait());
        expect(has(said, "has given it up: SWITCHYARD_TIMEOUT") && has(said, kMissing),
               "the error of who is late: " + said);
    }
    for (int round = 0; round < 3; ++round) {
        device.block(comm);
        sum.begin_and_wait(comm);
    }
    if (!late) {  // never called by the last rank
        sum.begin(lost);
        expect(class_of(sum.wait()) == MPI_ERR_OTHER, "the error class");
    }
    MPI_Comm_free(&lost);
    for (int round = 0; round < 3; ++round) {
        MPI_Comm another = make(device);
        sum.begin_and_wait(another);
        MPI_Comm_free(&another);
    }
    MPI_Comm_free(&comm);
}

void expect_given_up(int code, const char* how) {
    const std::string said = text_of(code);
    expect(class_of(code) == MPI_ERR_OTHER && has(said, "has given it up: SWITCHYARD_TIMEOUT") && has(said, kMissing),
           std::string("the error of who comes late, ") + how + ": " + said);
}

// Blocking calls: the late rank makes its calls when the others have given theirs up, `calls` of them. Then all are in
// step again.
void late_blocking(Sum& device, Sum& host, int before) {
    constexpr int kWays = 4;
    MPI_Comm comm = make(device);
    for (int round = 0; round < before; ++round)
        device.block(comm);
    const bool late = rank == size - 1;
    for (int way = 0; way < kWays; ++way) {
        const int calls = way == 1 ? 2 : 1;
        for (int call = 0; call < calls && !late; ++call) {
            const std::string said = text_of(device.try_block(comm));
            expect(has(said, "MPI_Allreduce on rank") && has(said, kWaited) && has(said, kMissing),
                   "the error of who waits in a blocking call: " + said);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int call = 0; call < calls && late; ++call)
            if (way < 2)
                expect_given_up(device.try_block(comm), "with the same call");
            else if (way == 2)
                expect_given_up(device.try_another(comm), "with another call");
            else
                expect_given_up(host.try_block(comm), "with host memory");
        for (int round = 0; round < 3; ++round)
            device.block(comm);
    }
    MPI_Comm_free(&comm);
}

int test_until_done(MPI_Request& request) {
    int flag = 0, code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && !flag)
        code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return code;
}

void given_up_start(Sum& device, Sum& sum) {
    MPI_Comm comm = make(device);
    MPI_Comm_set_name(comm, "ocean");
    Sum lost(gpu::Kind::kDevice), begun(gpu::Kind::kDevice), kept(gpu::Kind::kDevice);
    sum.make(comm);
    lost.make(comm);
    kept.make(comm);
    sum.start_and_wait();
    const bool late = rank == size - 1;
    if (!late) {
        const double start = MPI_Wtime();
        expect(sum.start() == MPI_SUCCESS, "a start that waits for nobody");
        const std::string said = text_of(rank == 0 ? sum.wait() : test_until_done(sum.request()));
        expect(has(said, ("Allreduce_init on rank " + std::to_string(rank) + " of ocean (3 ranks): ").c_str()) &&
                   has(said, "SWITCHYARD_TIMEOUT (2 s) has passed before all ranks started it") && has(said, kMissing),
               "the error of who waits for a start: " + said);
        expect(MPI_Wtime() - start > 1.9, "it has waited");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (late) {
        expect(sum.start() == MPI_SUCCESS, "a late start");
        const std::string said = text_of(sum.wait());
        expect(has(said, "has given it up: SWITCHYARD_TIMEOUT") && has(said, kMissing),
               "the error of who starts late: " + said);
    }
    const int again = sum.start();
    expect(class_of(again) == MPI_ERR_REQUEST && has(text_of(again), "make it anew"), "a start of what was given up");
    MPI_Request_free(&sum.request());
    sum.make(comm);
    sum.start_and_wait();
    for (int round = 0; round < 3; ++round) {
        device.block(comm);
        kept.start_and_wait();
    }
    if (!late) {  // never started by the last rank
        lost.start();
        begun.begin(comm);
        std::array<MPI_Request, 2> both{lost.request(), begun.request()};
        std::array<MPI_Status, 2> statuses{};
        expect(class_of(MPI_Waitall(2, both.data(), statuses.data())) == MPI_ERR_IN_STATUS, "the code of MPI_Waitall");
        for (const MPI_Status& status : statuses)
            expect(has(text_of(status.MPI_ERROR), kMissing), "an error in a status: " + text_of(status.MPI_ERROR));
        lost.request() = both[0];
    }
    for (Sum* each : {&sum, &kept, &lost})
        MPI_Request_free(&each->request());
    MPI_Comm_free(&comm);
}

// The ranks agree by MPI in their first calls, by shared memory later.
void given_up_blocking(Sum& device) {
    for (const int before : {1, 8}) {
        MPI_Comm comm = make(device);
        for (int call = 1; call < before; ++call)
            device.block(comm);
        if (rank == size - 1)
            continue;
        const std::string said = text_of(device.try_block(comm));
        expect(has(said, "MPI_Allreduce on rank") && has(said, "SWITCHYARD_TIMEOUT (1 s) has passed") &&
                   has(said, kMissing),
               "the error of who waits in a blocking call: " + said);
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank);
    const std::string way = argc > 1 ? argv[1] : "";
    auto* device = new Sum(gpu::Kind::kDevice);  // nobody frees what an operation may still use
    if (way == "--forgotten") {
        device->block(MPI_COMM_WORLD);
        auto* started = new Sum(gpu::Kind::kDevice);
        started->make(MPI_COMM_WORLD);
        if (rank == 0)
            device->begin(MPI_COMM_WORLD);
        if (rank == 1)
            started->start();
    } else if (way == "--blocking") {
        given_up_blocking(*device);
    } else if (way == "--late-blocking") {
        Sum host(gpu::Kind::kHost);
        for (const int before : {0, 8})  // by MPI, and by the ranks' shared page
            late_blocking(*device, host, before);
    } else if (way == "--persistent") {
        Sum sum(gpu::Kind::kDevice);
        given_up_start(*device, sum);
    } else {
        Sum sum(way.empty() || rank != 0 ? gpu::Kind::kDevice : gpu::Kind::kHost);
        given_up(*device, sum);
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
