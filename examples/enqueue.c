/* Work that the host only queues: each rank copies numbers to its device, adds them up over all ranks, sends them
 * around a ring and copies them back, round after round, all in the order of one CUDA stream, and waits once at the
 * end. The calls are MPICH's, declared by mpix_switchyard.h; link with libswitchyard (swycc enqueue.c -lcudart).
 * Without a GPU everything is in host memory, on a communicator without a stream. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <mpix_switchyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 16, ROUNDS = 8 };

static int on_gpu;
static cudaStream_t stream;

static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "enqueue: %s: %s\n", what, cudaGetErrorString(status));
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* Memory of the device, and page-locked memory of the host's, which copies in a stream's order want. */
static int* allocate(int on_device) {
    void* memory = NULL;
    if (on_gpu && on_device)
        check(cudaMalloc(&memory, COUNT * sizeof(int)), "cudaMalloc");
    else if (on_gpu)
        check(cudaMallocHost(&memory, COUNT * sizeof(int)), "cudaMallocHost");
    else if ((memory = malloc(COUNT * sizeof(int))) == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return memory;
}

static void copy(int* to, const int* from) {
    if (on_gpu)
        check(cudaMemcpyAsync(to, from, COUNT * sizeof(int), cudaMemcpyDefault, stream), "cudaMemcpyAsync");
    else
        memcpy(to, from, COUNT * sizeof(int));
}

static void choose_gpu(void) {
    MPI_Comm node;
    int place, gpus = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_free(&node);
    on_gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
    if (on_gpu) {
        check(cudaSetDevice(place % gpus), "cudaSetDevice");
        check(cudaStreamCreate(&stream), "cudaStreamCreate");
    }
}

static MPIX_Stream bind_stream(void) {
    MPIX_Stream bound = MPIX_STREAM_NULL;
    MPI_Info info;
    if (!on_gpu)
        return bound;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream_create(info, &bound);
    MPI_Info_free(&info);
    return bound;
}

int main(int argc, char** argv) {
    int rank, size, wrong = 0, all_wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    choose_gpu();
    MPIX_Stream bound = bind_stream();
    MPI_Comm comm;
    MPIX_Stream_comm_create(MPI_COMM_WORLD, bound, &comm);

    int *sum = allocate(1), *came = allocate(1), *numbers[ROUNDS], *result[ROUNDS];
    for (int round = 0; round < ROUNDS; ++round) {
        numbers[round] = allocate(0);
        result[round] = allocate(0);
        for (int i = 0; i < COUNT; ++i)
            numbers[round][i] = (rank + 1) * (round + 1) + i % 7;
    }
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Request requests[2];
        copy(sum, numbers[round]);
        /* The ranks' numbers travel around the ring, and then all ranks add theirs to the sum. */
        MPIX_Irecv_enqueue(came, COUNT, MPI_INT, left, round, comm, &requests[0]);
        MPIX_Isend_enqueue(sum, COUNT, MPI_INT, right, round, comm, &requests[1]);
        MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
        MPIX_Allreduce_enqueue(came, sum, COUNT, MPI_INT, MPI_SUM, comm);
        copy(result[round], sum);
    }
    if (on_gpu)
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); /* the only wait */

    for (int round = 0; round < ROUNDS; ++round)
        for (int i = 0; i < COUNT; ++i)
            wrong += result[round][i] != size * (size + 1) / 2 * (round + 1) + size * (i % 7);
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d rounds of %d numbers on %d ranks, %s: %s\n", ROUNDS, COUNT, size,
               on_gpu ? "device memory" : "no GPU: host memory", all_wrong == 0 ? "passed" : "WRONG");

    MPI_Comm_free(&comm);
    if (bound != MPIX_STREAM_NULL)
        MPIX_Stream_free(&bound);
    MPI_Finalize();
    return all_wrong != 0;
}
