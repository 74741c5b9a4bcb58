// An error of MPI's own in a collective on device memory that does not block is the program's, with the class that the
// same call on host memory has, raised once, by the communicator's error handler, which may call MPI; afterwards the
// communicator has that handler still.
// launch: -n 2 --gpus 2
#include <mpi.h>

#include <mpi-ext.h>  // needs mpi.h

#include <cstdio>
#include <vector>

#include "../../collective_forms.hpp"
#include "../gpu.hpp"

namespace {

constexpr int kCount = 100;  // under the threshold
int rank = 0, failures = 0, raised = 0;

void handler(MPI_Comm* comm, int*, ...) {
    ++raised;
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 1, *comm, &there, MPI_STATUS_IGNORE);
}

void expect(bool good, const char* call, const char* what) {
    if (good)
        return;
    std::fprintf(stderr, "rank %d, %s: %s\n", rank, call, what);
    ++failures;
}

// Rank 1 takes half of what is sent to it. The class of what becomes of that.
template <typename Call>
int erroneous(const char* name, gpu::Kind kind, MPI_Comm comm, MPI_Errhandler errors, Call call) {
    const gpu::Memory in(kind, kCount * sizeof(int)), out(kind, kCount * sizeof(int));
    MPI_Comm_set_errhandler(comm, errors);
    raised = 0;
    const int code = call(in.address(), out.address(), rank == 1 ? kCount / 2 : kCount, comm);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    expect(raised == (code != MPI_SUCCESS && errors != MPI_ERRORS_RETURN ? 1 : 0), name, "the handler's calls");
    MPI_Errhandler now = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(comm, &now);
    expect(now == errors, name, "another handler than before");
    MPI_Errhandler_free(&now);
    return error_class;
}

// Open MPI 4.1 asks the handler of MPI_COMM_WORLD on any communicator, so that is where it can be compared.
template <typename Call>
void compare(const char* name, Call call) {
    MPI_Errhandler own = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (const auto form : {forms::Form::kNonBlocking, forms::Form::kPersistent})
        for (MPI_Errhandler errors : {MPI_ERRORS_RETURN, own}) {
            forms::current = form;
            const int wanted = erroneous(name, gpu::Kind::kHost, MPI_COMM_WORLD, errors, call);
            expect(rank == 0 || wanted == MPI_ERR_TRUNCATE, name, "no error to compare with");
            expect(erroneous(name, gpu::Kind::kDevice, MPI_COMM_WORLD, errors, call) == wanted, name,
                   "another class than in host memory");
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
            expect(erroneous(name, gpu::Kind::kDevice, other, errors, call) == wanted, name,
                   "another class on another communicator");
        }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank);
    compare("MPI_Ibcast",
            [](void* in, void*, int count, MPI_Comm comm) { return forms::Bcast(in, count, MPI_INT, 0, comm); });
    compare("MPI_Iallreduce", [](void* in, void* out, int count, MPI_Comm comm) {
        return forms::Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
    });
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
