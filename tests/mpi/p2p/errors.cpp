// Erroneous point-to-point calls on device memory end as the same calls on host memory do: with an error of the same
// class, through the handler of the same communicator and as often. Arguments that MPI refuses, and messages that are
// too long for their receive.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "erroneous.hpp"
#include "truncated.hpp"

namespace {

using erroneous::Arguments;
using erroneous::Fault;
using erroneous::Shape;

int rank = 0, failures = 0;
MPI_Comm comm = MPI_COMM_NULL;  // on which the calls are made

using truncated::class_of;

// How a call has ended.
struct End {
    int mpi_class = MPI_SUCCESS;  // that the call has returned
    int in_status = MPI_SUCCESS;  // of the failed request, where the call has several
    int handled = 0, elsewhere = 0, class_handled = MPI_SUCCESS;
    bool operator==(const End&) const = default;
};
End now;  // under way

void handle(MPI_Comm* on, int* code, ...) {  // NOLINT: MPI's type
    ++(*on == comm ? now.handled : now.elsewhere);
    now.class_handled = class_of(*code);
}

std::string text(const End& end) {
    return "class " + std::to_string(end.mpi_class) + ", in the status " + std::to_string(end.in_status) +
           ", handled " + std::to_string(end.handled) + " times and " + std::to_string(end.elsewhere) +
           " elsewhere, as class " + std::to_string(end.class_handled);
}

void compare(const std::string& what, const End& host, const End& device, bool fails = true) {
    if (host == device && (host.mpi_class != MPI_SUCCESS || !fails))
        return;
    std::fprintf(stderr, "FAILED on rank %d: %s: %s; on host memory: %s\n", rank, what.c_str(), text(device).c_str(),
                 text(host).c_str());
    ++failures;
}

constexpr int kSizes[] = {10, 30000};  // doubles: a message under the threshold, one above
constexpr int kMost = 30000 * static_cast<int>(sizeof(double));

End end_of(const Shape& shape, const Arguments& arguments) {
    now = {};
    now.mpi_class = class_of(shape.make(arguments));
    return now;
}

void refused_as_on_host(const std::string& where) {
    const gpu::Memory host(gpu::Kind::kHost, kMost), device(gpu::Kind::kDevice, kMost);
    for (const int count : kSizes) {
        MPI_Datatype raw = MPI_DATATYPE_NULL;
        MPI_Type_vector(1, 1, 2, MPI_DOUBLE, &raw);
        for (const Shape& shape : erroneous::kShapes)
            for (const Fault fault : erroneous::kFaults) {
                if (!erroneous::can_have(shape, fault))
                    continue;
                Arguments right{host.address(), count, MPI_DOUBLE, MPI_PROC_NULL, 0, comm};
                const End on_host = end_of(shape, with(right, fault, raw));
                right.buffer = device.address();
                // Open MPI 4.1 and 5.0 let MPI_Ssend_init and its like pass with types that are not committed.
                compare("MPI_" + std::string(shape.name) + " with " + name(fault) + ", " + std::to_string(count) +
                            " doubles, " + where,
                        on_host, end_of(shape, with(right, fault, raw)), fault != Fault::kNotCommitted);
            }
        MPI_Type_free(&raw);
    }
}

void truncated_as_on_host(const std::string& where) {
    constexpr gpu::Kind kEnds[] = {gpu::Kind::kHost, gpu::Kind::kDevice};
    for (const truncated::Receive& receive : truncated::kReceives)
        for (const int count : kSizes) {
            End on_host;  // of a message of host memory
            for (const gpu::Kind from : kEnds)
                for (const gpu::Kind to : kEnds) {
                    if (rank == 1) {
                        const gpu::Memory memory(from, kMost * 2);
                        MPI_Send(memory.address(), 2 * count, MPI_DOUBLE, 0, truncated::kTag, comm);
                        continue;
                    }
                    // Open MPI may write a message that is too long for host memory beyond it.
                    const gpu::Memory memory(to, kMost * 2);
                    now = {};
                    now.mpi_class = class_of(receive.make(memory.address(), count, comm, now.in_status));
                    if (from == gpu::Kind::kHost && to == gpu::Kind::kHost)
                        on_host = now;
                    compare("MPI_" + std::string(receive.name) + " of " + std::to_string(2 * count) + " doubles from " +
                                gpu::name(from) + " memory into " + std::to_string(count) + " on " + gpu::name(to) +
                                ", " + where,
                            on_host, now);
                }
        }
}

void as_on_host(const std::string& where) {
    if (rank == 0)
        refused_as_on_host(where);
    truncated_as_on_host(where);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(gpu::Driver::get().devices > 1 ? rank : 0);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm inherits = MPI_COMM_NULL, returns = MPI_COMM_NULL, halves = MPI_COMM_NULL, between = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &inherits);
    MPI_Comm_dup(MPI_COMM_WORLD, &returns);
    MPI_Comm_set_errhandler(returns, MPI_ERRORS_RETURN);
    comm = MPI_COMM_WORLD;
    as_on_host("with a handler");
    comm = inherits;
    as_on_host("with an inherited handler");
    comm = returns;
    as_on_host("with MPI_ERRORS_RETURN");
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &halves);
    MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, 1 - rank, 9, &between);
    MPI_Comm_set_errhandler(between, handler);
    comm = between;
    if (rank == 0)
        refused_as_on_host("on an intercommunicator");
    MPI_Errhandler_free(&handler);
    for (MPI_Comm* made : {&inherits, &returns, &halves, &between})
        MPI_Comm_free(made);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
