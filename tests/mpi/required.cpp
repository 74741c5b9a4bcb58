// SWITCHYARD_NCCL=require: a call on device memory that would be staged for a reason that can be mended is an error on
// all its ranks, which says why and what to do, and the next call works. Small calls, calls on host memory, calls for
// which NCCL has no operation and messages that need neither NCCL nor host memory go on. The argument is what keeps the
// ranks from NCCL: that two have one GPU, that NCCL is not there, or that some pass host memory.
// launch: --relinked -n 2 --gpus 1 -x SWITCHYARD_NCCL=require -- gpu
// launch: --relinked -n 2 --gpus 2 -x SWITCHYARD_NCCL=require -x SWITCHYARD_NCCL_LIBRARY=/none/libnccl.so.2 -- library
// launch: --relinked -n 3 --gpus 3 -x SWITCHYARD_NCCL=require -- memory
// launch: --relinked -n 3 --gpus 3 -x SWITCHYARD_NCCL=require -x SWITCHYARD_AGREE=mpi -- memory
// launch: --relinked -n 3 --gpus 3 -- memory-rank-0
// test-timeout: 60
#include <mpi.h>
#include <mpix_switchyard.h>

#include <mpi-ext.h>  // needs mpi.h

#include <cstdio>
#include <cstdlib>
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

constexpr int kLarge = 30000, kSmall = 100;  // of doubles: about the threshold
int rank = 0, size = 0, failures = 0;
std::string because, remedy;  // what the errors say

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

void expect_refused(const char* call, int code) {
    int mpi_class = MPI_SUCCESS;
    MPI_Error_class(code, &mpi_class);
    const std::string text = text_of(code);
    const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
    expect(mpi_class == MPI_ERR_OTHER && has(call) && has("SWITCHYARD_NCCL=require") && has(because) && has(remedy),
           std::string(call) + " is refused: " + text);
}

class Data {
  public:
    explicit Data(gpu::Kind kind, int count = kLarge)
        : count_(count), in_(kind, bytes_of(rank + 1.0, count)), out_(kind, bytes_of(0, count)) {}

    void* in() const { return in_.address(); }
    void* out() const { return out_.address(); }
    int count() const { return count_; }

    int allreduce(MPI_Op op = MPI_SUM, MPI_Datatype type = MPI_DOUBLE) const {
        return MPI_Allreduce(in(), out(), count_, type, op, MPI_COMM_WORLD);
    }
    void expect_sum(int code, const char* what) const { expect_all(size * (size + 1) / 2.0, code, what); }
    void expect_all(double right, int code, const char* what) const {
        const std::vector<std::byte> bytes = out_.read();
        double ends[2];
        std::memcpy(&ends[0], bytes.data(), sizeof(double));
        std::memcpy(&ends[1], bytes.data() + bytes.size() - sizeof(double), sizeof(double));
        expect(code == MPI_SUCCESS && ends[0] == right && ends[1] == right, std::string(what) + ": " + text_of(code));
        out_.write(bytes_of(0, count_));
    }

  private:
    static std::vector<std::byte> bytes_of(double value, int count) {
        const std::vector<double> values(static_cast<std::size_t>(count), value);
        std::vector<std::byte> bytes(values.size() * sizeof(double));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    }

    int count_;
    gpu::Memory in_;
    mutable gpu::Memory out_;
};

int completed(MPI_Request& request) {
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// The first non-blocking collectives wait for nobody, and are staged while a communicator is being made.
int iallreduce_in_the_end(const Data& data) {
    int code = MPI_SUCCESS;
    for (int round = 0; round < 50 && code == MPI_SUCCESS; ++round) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(data.in(), data.out(), data.count(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        code = completed(request);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return code;
}

void collectives_are_refused(const Data& data) {
    for (int round = 0; round < 8; ++round)  // by MPI at first, then by shared memory
        expect_refused("MPI_Allreduce", data.allreduce());
    expect_refused("MPI_Bcast", MPI_Bcast(data.out(), data.count(), MPI_DOUBLE, size - 1, MPI_COMM_WORLD));
    std::vector<int> counts(static_cast<std::size_t>(size), data.count() / size), displs(counts.size());
    for (std::size_t i = 0; i < displs.size(); ++i)
        displs[i] = static_cast<int>(i) * counts[0];
    for (int round = 0; round < 20; ++round)
        expect_refused("MPI_Alltoallv", MPI_Alltoallv(data.in(), counts.data(), displs.data(), MPI_DOUBLE, data.out(),
                                                      counts.data(), displs.data(), MPI_DOUBLE, MPI_COMM_WORLD));
    expect_refused("MPI_Iallreduce", iallreduce_in_the_end(data));
    MPI_Request request = MPI_REQUEST_NULL;
    expect_refused("Allreduce_init", INIT(Allreduce)(data.in(), data.out(), data.count(), MPI_DOUBLE, MPI_SUM,
                                                     MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    void* list[] = {data.out()};
    expect_refused("MPIX_Allreduce_multi", MPIX_Allreduce_multi(static_cast<const void* const*>(MPI_IN_PLACE), list, 1,
                                                                data.count(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
}

void messages_are_refused(const Data& data) {
    if (rank < 2) {
        int code = rank == 1 ? MPI_Send(data.in(), data.count(), MPI_DOUBLE, 0, 7, MPI_COMM_WORLD)
                             : MPI_Recv(data.out(), data.count(), MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_refused(rank == 1 ? "MPI_Send" : "MPI_Recv", code);
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank == 1)
            MPI_Isend(data.in(), data.count(), MPI_DOUBLE, 0, 8, MPI_COMM_WORLD, &request);
        else
            MPI_Irecv(data.out(), data.count(), MPI_DOUBLE, 1, 8, MPI_COMM_WORLD, &request);
        expect_refused(rank == 1 ? "MPI_Isend" : "MPI_Irecv", completed(request));
    }
}

// They go from device memory to device memory, which is not staging.
void messages_go_on(const Data& data) {
    if (rank < 2) {
        const int code = MPI_Sendrecv(data.in(), data.count(), MPI_DOUBLE, 1 - rank, 9, data.out(), data.count(),
                                      MPI_DOUBLE, 1 - rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        data.expect_all(2.0 - rank, code, "a message between devices");
    }
}

void others_go_on(const Data& small, const Data& host) {
    small.expect_sum(small.allreduce(), "a small sum");
    for (int round = 0; round < 8; ++round)
        host.expect_sum(host.allreduce(), "a sum in host memory");
    if (rank < 2) {
        const int peer = 1 - rank;
        for (const Data* data : {&small, &host}) {
            const int code = MPI_Sendrecv(data->in(), data->count(), MPI_DOUBLE, peer, 1, data->out(), data->count(),
                                          MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(code == MPI_SUCCESS, "a message: " + text_of(code));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// NCCL has no such type, and no kernel reduces it: the call is staged whatever is required.
void calls_without_operation_go_on(const Data& device) {
    const int code = MPI_Allreduce(device.in(), device.out(), kLarge / 2, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(code == MPI_SUCCESS, "a sum of long doubles: " + text_of(code));
}

}  // namespace

int main(int argc, char** argv) {
    const std::string way = argc > 1 ? argv[1] : "";
    const char* world_rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (way == "memory-rank-0" && world_rank != nullptr && std::string(world_rank) == "0")
        setenv("SWITCHYARD_NCCL", "require", 1);  // rank 0's holds
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    because = way == "gpu"       ? "two ranks of the communicator use one GPU"
              : way == "library" ? "libnccl.so.2 was not found on every rank"
                                 : "some ranks passed device memory, others host memory";
    remedy = way == "gpu" ? "Give each rank a GPU" : way == "library" ? "Install NCCL" : "Pass device memory on all";
    const bool mixed = because.starts_with("some ranks");
    const Data device(gpu::Kind::kDevice), small(gpu::Kind::kDevice, kSmall), host(gpu::Kind::kHost);
    const Data& refused = mixed && rank == 0 ? host : device;
    for (int round = 0; round < 3; ++round) {
        collectives_are_refused(refused);
        if (mixed)
            messages_are_refused(refused);
        else
            messages_go_on(refused);
        others_go_on(small, host);
        if (mixed)
            device.expect_sum(device.allreduce(), "a sum over NCCL");
        calls_without_operation_go_on(device);
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
