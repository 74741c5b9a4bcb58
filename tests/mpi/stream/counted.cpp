// Makes N calls of some kinds on a stream communicator and waits once. Driven by counted.test, which reads the report
// and the virtual GPUs' log. Arguments: N, and none for a communicator of MPIX_STREAM_NULL, own to reduce by an
// operator of the program's, or rounds to make and free as many communicators.
#include <cstdlib>
#include <string>

#include "queue.hpp"

namespace {

constexpr int kCount = 1000;

void add(void* in, void* inout, int* count, MPI_Datatype*) {
    for (int i = 0; i < *count; ++i)
        static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

void calls(int number, bool with_stream, MPI_Op op) {
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    stream_test::Queue queue(with_stream);
    gpu::Memory a(gpu::Kind::kDevice, kCount * sizeof(int)), b(gpu::Kind::kDevice, kCount * sizeof(int));
    for (int i = 0; i < number; ++i) {
        MPIX_Allreduce_enqueue(a.address(), b.address(), kCount, MPI_INT, op, queue.comm);
        MPI_Request request = MPI_REQUEST_NULL;
        MPIX_Isend_enqueue(a.address(), kCount, MPI_INT, (rank + 1) % size, 0, queue.comm, &request);
        MPIX_Recv_enqueue(b.address(), kCount, MPI_INT, (rank + size - 1) % size, 0, queue.comm, MPI_STATUS_IGNORE);
        MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
        MPIX_Barrier_enqueue(queue.comm);
    }
    queue.synchronize();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const std::string what = argc > 2 ? argv[2] : "";
    const int number = std::atoi(argv[1]);
    MPI_Op op = MPI_SUM;
    if (what == "own")
        MPI_Op_create(add, 1, &op);
    for (int i = 0; i < (what == "rounds" ? number : 1); ++i)
        calls(what == "rounds" ? 2 : number, what != "none", op);
    if (what == "own")
        MPI_Op_free(&op);
    MPI_Finalize();
    return 0;
}
