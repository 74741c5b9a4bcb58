// SWITCHYARD_TIMEOUT and a collective that does not block, for which one rank comes too late or never: an error on
// those that wait, and on the one that is late, and later calls are right again. With --forgotten nobody waits for it,
// and MPI_Finalize ends all the same.
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=2
// launch: -n 3 --gpus 3 -x SWITCHYARD_TIMEOUT=2 -- --one-has-host-memory
// launch: -n 2 --gpus 2 -x SWITCHYARD_TIMEOUT=1 -- --forgotten
// test-timeout: 60
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "gpu.hpp"

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
    void block(MPI_Comm comm) { check(MPI_Allreduce(mine_.at(0), all_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm)); }

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

void given_up(Sum& device, Sum& sum) {
    MPI_Comm comm = make(device), lost = make(device);
    const bool late = rank == size - 1;
    if (!late) {
        const double start = MPI_Wtime();
        sum.begin(comm);
        const std::string said = text_of(sum.wait());
        expect(has(said, "MPI_Iallreduce") && has(said, "SWITCHYARD_TIMEOUT"), "the error of who waits: " + said);
        expect(MPI_Wtime() - start > 1.9, "it has waited");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (late) {
        sum.begin(comm);
        const std::string said = text_of(sum.wait());
        expect(has(said, "has given it up: SWITCHYARD_TIMEOUT"), "the error of who is late: " + said);
    }
    for (int round = 0; round < 3; ++round) {
        device.block(comm);
        sum.begin_and_wait(comm);
    }
    if (!late) {  // never called by the last rank
        sum.begin(lost);
        int error_class = MPI_SUCCESS;
        MPI_Error_class(sum.wait(), &error_class);
        expect(error_class == MPI_ERR_OTHER, "the error class");
    }
    MPI_Comm_free(&lost);
    for (int round = 0; round < 3; ++round) {
        MPI_Comm another = make(device);
        sum.begin_and_wait(another);
        MPI_Comm_free(&another);
    }
    MPI_Comm_free(&comm);
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
        if (rank == 0)
            device->begin(MPI_COMM_WORLD);
    } else {
        Sum sum(way.empty() || rank != 0 ? gpu::Kind::kDevice : gpu::Kind::kHost);
        given_up(*device, sum);
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
