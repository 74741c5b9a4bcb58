/* A profiling library for osu.test and osu_messages.test, loaded before the library under test.
 *
 * OSU's benchmarks check the result on each rank, then add the numbers of errors up with MPI_Allreduce: were that call
 * broken, errors would vanish in it. Here every rank tells its own number before it is added.
 *   OSU_WATCH_DAMAGE=N  the result of every N-th data collective, or MPI_Recv, is damaged on one rank: OSU must find it
 *   OSU_WATCH_HIDE=1    the sum of the errors is lost, as by a broken MPI_Allreduce: osu.test must not be taken in
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int kSmallest = 64; /* bytes of a result that is damaged */

static int own_rank(MPI_Comm comm) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

static void copy(void* to, const void* from, size_t bytes) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*cuda_copy)(void*, const void*, size_t) = NULL;
    if (driver != NULL) {
        *(void**)&cuda_copy = dlsym(driver, "cuMemcpy");
        dlclose(driver);
    }
    if (cuda_copy == NULL)
        memcpy(to, from, bytes);
    else if (cuda_copy(to, from, bytes) != 0)
        _Exit(98);
}

static void maybe_damage(void* result, int count, MPI_Datatype type, int here) {
    static long calls = 0;
    const char* every = getenv("OSU_WATCH_DAMAGE");
    unsigned char bytes[4];
    int size = 0;
    PMPI_Type_size(type, &size);
    if (every == NULL || !here || (long)count * size < kSmallest || ++calls % atol(every) != 0)
        return;
    copy(bytes, result, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; ++i)
        bytes[i] ^= 0xff;
    copy(result, bytes, sizeof bytes);
}

static int last(MPI_Comm comm) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return own_rank(comm) == size - 1;
}

int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    const int errors = count == 1 && type == MPI_INT && op == MPI_SUM;
    if (errors)
        fprintf(stderr, "osu_watch: rank %d found %d errors\n", own_rank(comm), *(const int*)send);
    int rc = PMPI_Allreduce(send, recv, count, type, op, comm);
    if (errors && getenv("OSU_WATCH_HIDE") != NULL)
        *(int*)recv = 0;
    maybe_damage(recv, count, type, last(comm));
    return rc;
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    int rc = PMPI_Bcast(buffer, count, type, root, comm);
    maybe_damage(buffer, count, type, last(comm));
    return rc;
}

int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    int rc = PMPI_Reduce(send, recv, count, type, op, root, comm);
    maybe_damage(recv, count, type, own_rank(comm) == root);
    return rc;
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* recv, int count, MPI_Datatype type,
                  MPI_Comm comm) {
    int rc = PMPI_Allgather(send, send_count, send_type, recv, count, type, comm);
    maybe_damage(recv, count, type, last(comm));
    return rc;
}

int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* recv, int count, MPI_Datatype type,
                 MPI_Comm comm) {
    int rc = PMPI_Alltoall(send, send_count, send_type, recv, count, type, comm);
    maybe_damage(recv, count, type, last(comm));
    return rc;
}

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    int rc = PMPI_Recv(buffer, count, type, source, tag, comm, status);
    maybe_damage(buffer, count, type, own_rank(comm) == 1);
    return rc;
}

/* OSU checks rank 0's part alone: its loop over another's begins behind its end. */
int MPI_Reduce_scatter(const void* send, void* recv, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    int rc = PMPI_Reduce_scatter(send, recv, counts, type, op, comm);
    maybe_damage(recv, counts[own_rank(comm)], type, own_rank(comm) == 0);
    return rc;
}
