// One rank comes late to a call, and the others wait for it. Driven by stalled.test, which reads what they say
// meanwhile; what the calls give is checked here. Arguments: what is called, how many calls come before, how many
// seconds the last rank is late (with `away`, all ranks compute that long) and, with `host`, that rank 0 passes host
// memory then.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gpu.hpp"

namespace {

constexpr int kCount = 30000;  // of doubles: above the threshold
int rank = 0, size = 0, failures = 0;

class Data {
  public:
    explicit Data(gpu::Kind kind) : in_(kind, bytes_of(rank + 1.0)), out_(kind, bytes_of(0)) {}

    int allreduce() { return MPI_Allreduce(in(), out(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
    void* in() const { return in_.address(); }
    void* out() const { return out_.address(); }

    void expect(double value) {
        const std::vector<std::byte> bytes = out_.read();
        double ends[2];
        std::memcpy(&ends[0], bytes.data(), sizeof(double));
        std::memcpy(&ends[1], bytes.data() + bytes.size() - sizeof(double), sizeof(double));
        if (ends[0] == value && ends[1] == value)
            return;
        std::fprintf(stderr, "FAILED on rank %d: %g and %g, not %g\n", rank, ends[0], ends[1], value);
        ++failures;
    }
    void expect_sum() { expect(size * (size + 1) / 2.0); }

  private:
    static std::vector<std::byte> bytes_of(double value) {
        const std::vector<double> values(kCount, value);
        std::vector<std::byte> bytes(kCount * sizeof(double));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    }

    gpu::Memory in_, out_;
};

void complete(MPI_Request& request) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// A collective on device memory that is no large message: Open MPI's own call, in which all but the last rank wait.
void small(double late, gpu::Kind kind) {
    const double mine = rank + 1.0;
    gpu::Memory in(
        kind, {reinterpret_cast<const std::byte*>(&mine), reinterpret_cast<const std::byte*>(&mine) + sizeof mine});
    gpu::Memory out(kind, sizeof mine);
    for (const bool is_late : {false, true}) {
        if (is_late && rank == size - 1)
            usleep(static_cast<useconds_t>(late * 1e6));
        MPI_Allreduce(in.address(), out.address(), 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    double sum = 0;
    std::memcpy(&sum, out.read().data(), sizeof sum);
    if (sum == size * (size + 1) / 2.0)
        return;
    std::fprintf(stderr, "FAILED on rank %d: %g\n", rank, sum);
    ++failures;
}

void add(void* in, void* inout, int* count, MPI_Datatype*) {
    for (int i = 0; i < *count; ++i)
        static_cast<double*>(inout)[i] += static_cast<double*>(in)[i];
}

// A collective that does not block, with an operator of the program's own: the ranks do not agree on it.
void own_operator(Data& data, double late) {
    MPI_Op sum = MPI_OP_NULL;
    MPI_Op_create(add, 1, &sum);
    if (rank == size - 1)
        usleep(static_cast<useconds_t>(late * 1e6));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(data.in(), data.out(), kCount, MPI_DOUBLE, sum, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    data.expect_sum();
    MPI_Op_free(&sum);
}

// The last rank sends to rank 0, and is late at either end.
void message(Data& data, const std::string& way, double late) {
    MPI_Request request = MPI_REQUEST_NULL;
    const auto pause = [late] { usleep(static_cast<useconds_t>(late * 1e6)); };
    if (rank == size - 1) {
        if (way != "late-receive")
            pause();
        MPI_Send(data.in(), kCount, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
    } else if (rank == 0) {
        if (way == "late-receive")
            pause();
        if (way == "irecv") {
            MPI_Irecv(data.out(), kCount, MPI_DOUBLE, size - 1, 7, MPI_COMM_WORLD, &request);
            complete(request);
        } else {
            MPI_Recv(data.out(), kCount, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        data.expect(size);
    }
}

// A receive is pending for long, and is not waited for until its message is there.
void nobody_waits(Data& data, double late) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (rank == 0)
        MPI_Irecv(data.out(), kCount, MPI_DOUBLE, size - 1, 7, MPI_COMM_WORLD, &requests[0]);
    for (double begun = MPI_Wtime(); MPI_Wtime() - begun < late;) {
        int flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        MPI_Isend(data.in(), kCount, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        data.expect(size);
}

// A communicator is freed while a collective on it, which the last rank is late for, is under way.
void freed(Data& data, double late) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "brief");
    for (int call = 0; call < 2; ++call)
        MPI_Allreduce(data.in(), data.out(), kCount, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        usleep(static_cast<useconds_t>(late * 1e6));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(data.in(), data.out(), kCount, MPI_DOUBLE, MPI_SUM, comm, &request);
    MPI_Comm_free(&comm);
    complete(request);
    data.expect_sum();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const std::string way = argv[1];
    const int before = std::atoi(argv[2]);
    const double late = std::atof(argv[3]);
    Data device(gpu::Kind::kDevice), host(gpu::Kind::kHost);
    for (int call = 0; call < before; ++call)
        device.allreduce();
    Data& data = argc > 4 && rank == 0 ? host : device;
    if (way == "allreduce" || way == "iallreduce") {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1)
            usleep(static_cast<useconds_t>(late * 1e6));
        MPI_Request request = MPI_REQUEST_NULL;
        if (way == "allreduce")
            data.allreduce();
        else
            MPI_Iallreduce(data.in(), data.out(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        complete(request);
        data.expect_sum();
    } else if (way == "free") {
        freed(data, late);
    } else if (way == "nobody") {
        nobody_waits(data, late);
    } else if (way == "small") {
        small(late, argc > 4 && rank == 0 ? gpu::Kind::kHost : gpu::Kind::kDevice);
    } else if (way == "own-operator") {
        own_operator(data, late);
    } else if (way == "away") {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(data.in(), data.out(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        usleep(static_cast<useconds_t>(late * 1e6));
        complete(request);
        data.expect_sum();
    } else if (way == "finalize") {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1)
            usleep(static_cast<useconds_t>(late * 1e6));
    } else {
        message(data, way, late);
    }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
