// Error handlers of the program's that call MPI on another communicator, with host and with device memory, small and
// large: they get what arithmetic gives, also where other ranks make the same calls outside of any handler. And they
// free requests, and replace themselves. The errors are messages that are longer than one rank's receive, which
// Switchyard raises for device memory and MPI for host memory, a root that no communicator has, which MPI raises on
// all, and every point-to-point call of one rank's, from host and device memory, with an argument that MPI refuses.
// launch: -n 2 --gpus 2
// launch: -n 3 --gpus 3 -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "gpu.hpp"
#include "p2p/erroneous.hpp"
#include "p2p/truncated.hpp"
#include "pml.hpp"

namespace {

int rank = 0, size = 0, handled = 0, failures = 0;
MPI_Comm other = MPI_COMM_NULL;

void expect(bool right, const char* what, gpu::Kind kind, int count) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED on rank %d: %s of %d doubles in %s memory\n", rank, what, count, gpu::name(kind));
    ++failures;
}

std::vector<std::byte> bytes_of(double value, int count) {
    const std::vector<double> values(static_cast<std::size_t>(count), value);
    std::vector<std::byte> bytes(values.size() * sizeof(double));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

void sum_and_pass_on(gpu::Kind kind, int count) {
    const gpu::Memory mine(kind, bytes_of(rank + 1.0, count)), got(kind, mine.size());
    MPI_Allreduce(mine.at(0), got.at(0), count, MPI_DOUBLE, MPI_SUM, other);
    expect(got.read() == bytes_of(size * (size + 1) / 2.0, count), "MPI_Allreduce", kind, count);
    const int before = (rank + size - 1) % size;
    MPI_Sendrecv(mine.at(0), count, MPI_DOUBLE, (rank + 1) % size, 3, got.at(0), count, MPI_DOUBLE, before, 3, other,
                 MPI_STATUS_IGNORE);
    expect(got.read() == bytes_of(before + 1.0, count), "MPI_Sendrecv", kind, count);
}

void communicate() {
    for (const gpu::Kind kind : {gpu::Kind::kHost, gpu::Kind::kDevice})
        for (const int count : {1000, 30000})  // under the thresholds and above
            sum_and_pass_on(kind, count);
}

MPI_Errhandler handler = MPI_ERRHANDLER_NULL;

void handle(MPI_Comm* comm, int*, ...) {  // NOLINT: MPI's type
    ++handled;
    communicate();
    const gpu::Memory memory(gpu::Kind::kDevice, sizeof(double));
    for (const auto begin : {MPI_Recv_init, MPI_Irecv}) {
        MPI_Request request = MPI_REQUEST_NULL;
        begin(memory.at(0), 1, MPI_DOUBLE, MPI_PROC_NULL, 0, other, &request);
        MPI_Request_free(&request);
    }
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    const int code = MPI_Send(memory.at(0), 1, MPI_DOUBLE, -77, 0, *comm);
    expect(truncated::class_of(code) == MPI_ERR_RANK, "the error within a handler's MPI_Send", memory.kind(), 1);
    MPI_Comm_set_errhandler(*comm, handler);
}

// By rank 0 alone; how many errors.
int send_to_nobody(MPI_Comm comm) {
    MPI_Datatype pairs = MPI_DATATYPE_NULL;
    MPI_Type_vector(20000, 1, 2, MPI_DOUBLE, &pairs);
    MPI_Type_commit(&pairs);
    int errors = 0;
    for (const int count : {1, 40000}) {
        std::vector<double> memory(40000);
        if (rank != 0) {
            communicate();
            communicate();
            continue;
        }
        MPI_Send(memory.data(), count, MPI_DOUBLE, size, 0, comm);
        MPI_Send(memory.data(), 1, pairs, size, 0, comm);
        errors += 2;
    }
    MPI_Type_free(&pairs);
    return errors;
}

// By rank 0 alone, on the device.
int refused(MPI_Comm comm) {
    int errors = 0;
    for (const int count : {1000, 30000}) {
        const gpu::Memory memory(gpu::Kind::kDevice, static_cast<std::size_t>(count) * sizeof(double));
        const erroneous::Arguments right{memory.at(0), count, MPI_DOUBLE, MPI_PROC_NULL, 0, comm};
        for (const erroneous::Shape& shape : erroneous::kShapes)
            for (const auto fault : {erroneous::Fault::kRank, erroneous::Fault::kCount, erroneous::Fault::kNoBuffer}) {
                if (!erroneous::can_have(shape, fault))
                    continue;
                if (rank != 0) {
                    communicate();
                    continue;
                }
                const int before = handled;
                shape.make(with(right, fault, MPI_DATATYPE_NULL));
                expect(handled == before + 1, shape.name, memory.kind(), count);
                ++errors;
            }
    }
    return errors;
}

// Open MPI 4.1 and 5.0 over UCX raise an error of their own MPI_Imrecv on whatever communicator the request served last
// (pml_ucx.c: mca_pml_ucx_imrecv sets none), without Switchyard too.
bool raised_elsewhere_by_mpi(const truncated::Receive& receive, gpu::Kind from, gpu::Kind to) {
    return mpi_test::over("ucx") && std::strcmp(receive.name, "Imrecv") == 0 && from == gpu::Kind::kHost &&
           to == gpu::Kind::kHost;
}

// Messages of rank 1's that are too long for what rank 0 has for them.
int too_long(MPI_Comm comm) {
    constexpr gpu::Kind kEnds[] = {gpu::Kind::kHost, gpu::Kind::kDevice};
    int errors = 0;
    for (const truncated::Receive& receive : truncated::kReceives)
        for (const gpu::Kind from : kEnds)
            for (const gpu::Kind to : kEnds) {
                if (raised_elsewhere_by_mpi(receive, from, to))
                    continue;
                constexpr int kCount = 20000;
                const gpu::Memory memory(rank == 0 ? to : from, sizeof(double) * kCount);
                const gpu::Memory more(gpu::Kind::kDevice, sizeof(double));
                // One of Switchyard's own that is never due.
                MPI_Request beside = MPI_REQUEST_NULL;
                if (rank == 0)
                    MPI_Irecv(more.at(0), 1, MPI_DOUBLE, 0, 99, comm, &beside);
                if (rank == 1)
                    MPI_Send(memory.at(0), kCount, MPI_DOUBLE, 0, truncated::kTag, comm);
                if (rank == 0) {
                    const int before = handled;
                    int in_status = MPI_SUCCESS;
                    receive.make(memory.at(0), kCount / 2, comm, in_status);
                    expect(handled == before + 1, receive.name, to, kCount);
                    ++errors;
                    MPI_Cancel(&beside);
                    MPI_Wait(&beside, MPI_STATUS_IGNORE);
                } else {
                    communicate();
                }
            }
    return errors;
}

}  // namespace

int main(int argc, char** argv) {
    constexpr int kRounds = 3, kLong = 1 << 20, kShort = 1000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank);
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    {
        const gpu::Memory memory(gpu::Kind::kDevice, kLong);
        for (int round = 0; round < kRounds; ++round) {
            if (rank == 1)
                MPI_Send(memory.at(0), kLong, MPI_BYTE, 0, 0, comm);
            if (rank == 0)
                MPI_Recv(memory.at(0), kShort, MPI_BYTE, 1, 0, comm, MPI_STATUS_IGNORE);
            else
                communicate();
            int nothing = 0;
            MPI_Bcast(&nothing, 1, MPI_INT, size, comm);
        }
    }
    const int alone = send_to_nobody(comm);
    const int begun_wrong = refused(comm);
    const int wanted = (rank == 0 ? 2 * kRounds : kRounds) + alone + begun_wrong + too_long(comm);
    if (handled != wanted) {
        std::fprintf(stderr, "FAILED on rank %d: %d errors handled, not %d\n", rank, handled, wanted);
        ++failures;
    }
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&other);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
