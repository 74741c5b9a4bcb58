/* NCCL's operations on all devices of the process, against arithmetic. nvidia.test runs it over NVIDIA's own NCCL. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call, good, text)                        \
    do {                                               \
        int result = (int)(call);                      \
        if (result != (int)(good)) {                   \
            printf("%s: %s\n", #call, (text)(result)); \
            return 1;                                  \
        }                                              \
    } while (0)

static const char* cuda_text(int error) {
    return cudaGetErrorString((cudaError_t)error);
}
static const char* nccl_text(int error) {
    return ncclGetErrorString((ncclResult_t)error);
}
#define CUDA(call) CHECK(call, cudaSuccess, cuda_text)
#define NCCL(call) CHECK(call, ncclSuccess, nccl_text)
#define MOST 8

enum Operation { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, EXCHANGE, OPERATIONS };
static const char* const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce", "Send and Recv"};

static int start(int operation, const int* from, int* to, size_t count, int rank, int n, ncclComm_t comm,
                 cudaStream_t stream) {
    switch (operation) {
        case ALL_REDUCE:
            NCCL(ncclAllReduce(from, to, count, ncclInt32, ncclSum, comm, stream));
            break;
        case REDUCE_SCATTER:
            NCCL(ncclReduceScatter(from, to, count / (size_t)n, ncclInt32, ncclMax, comm, stream));
            break;
        case ALL_GATHER:
            NCCL(ncclAllGather(from, to, count / (size_t)n, ncclInt32, comm, stream));
            break;
        case BROADCAST:
            NCCL(ncclBroadcast(from, to, count, ncclInt32, n - 1, comm, stream));
            break;
        case REDUCE:
            NCCL(ncclReduce(from, to, count, ncclInt32, ncclProd, 0, comm, stream));
            break;
        default: /* to the next rank, from the one before */
            NCCL(ncclSend(from, count, ncclInt32, (rank + 1) % n, comm, stream));
            NCCL(ncclRecv(to, count, ncclInt32, (rank + n - 1) % n, comm, stream));
    }
    return 0;
}

/* Rank r gives (k % 5) + r + 1 as its element k. */
static int value(size_t k, int rank) {
    return (int)(k % 5) + rank + 1;
}

/* What the operation leaves at element k, or -1 where it leaves nothing. */
static int expected(int operation, size_t k, size_t count, int rank, int n) {
    const size_t part = count / (size_t)n;
    int result = operation == REDUCE ? 1 : 0;
    switch (operation) {
        case ALL_REDUCE:
        case REDUCE:
            if (operation == REDUCE && rank != 0)
                return -1;
            for (int r = 0; r < n; ++r)
                result = operation == REDUCE ? result * value(k, r) : result + value(k, r);
            return result;
        case REDUCE_SCATTER:
            return k < part ? value((size_t)rank * part + k, n - 1) : -1;
        case ALL_GATHER:
            return k < part * (size_t)n ? value(k % part, (int)(k / part)) : -1;
        case BROADCAST:
            return value(k, n - 1);
        default:
            return value(k, (rank + n - 1) % n);
    }
}

int main(int argc, char** argv) {
    const size_t count = argc > 1 ? strtoul(argv[1], 0, 10) : 1000;
    int n = 0, version = 0, wrong = 0;
    int *from[MOST], *to[MOST], *host = malloc(count * sizeof *host);
    cudaStream_t streams[MOST];
    ncclComm_t comms[MOST];
    CUDA(cudaGetDeviceCount(&n));
    NCCL(ncclGetVersion(&version));
    if (host == 0 || n > MOST)
        return 1;
    NCCL(ncclCommInitAll(comms, n, 0));
    for (int rank = 0; rank < n; ++rank) {
        CUDA(cudaSetDevice(rank));
        CUDA(cudaStreamCreate(&streams[rank]));
        CUDA(cudaMalloc((void**)&from[rank], count * sizeof *host));
        CUDA(cudaMalloc((void**)&to[rank], count * sizeof *host));
        for (size_t k = 0; k < count; ++k)
            host[k] = value(k, rank);
        CUDA(cudaMemcpy(from[rank], host, count * sizeof *host, cudaMemcpyHostToDevice));
    }
    for (int operation = 0; operation < OPERATIONS; ++operation) {
        int bad = 0;
        for (int rank = 0; rank < n; ++rank) {
            CUDA(cudaSetDevice(rank)); /* whose default stream the operation's stream waits for */
            CUDA(cudaMemset(to[rank], 0xff, count * sizeof *host)); /* -1 */
        }
        NCCL(ncclGroupStart());
        for (int rank = 0; rank < n; ++rank)
            if (start(operation, from[rank], to[rank], count, rank, n, comms[rank], streams[rank]) != 0)
                return 1;
        NCCL(ncclGroupEnd());
        for (int rank = 0; rank < n; ++rank) {
            CUDA(cudaStreamSynchronize(streams[rank]));
            CUDA(cudaMemcpy(host, to[rank], count * sizeof *host, cudaMemcpyDeviceToHost));
            for (size_t k = 0; k < count; ++k)
                bad += host[k] != expected(operation, k, count, rank, n);
        }
        if (bad != 0)
            printf("%s: %d wrong\n", names[operation], bad);
        wrong += bad;
    }
    for (int rank = 0; rank < n; ++rank)
        NCCL(ncclCommDestroy(comms[rank]));
    printf("NCCL %d on %d devices: %d wrong\n", version, n, wrong);
    return wrong != 0;
}
