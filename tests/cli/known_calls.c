/* Makes calls whose number and sizes report.test and trace.test know by arithmetic, on device memory where there is a
 * GPU. Each rank's device is its rank modulo the number of devices, or 0 with the argument "share". With "more" there
 * are messages from rank 0 to rank 1 too, and collectives that do not block. With "wait" rank 0 waits for rank 1 in a
 * barrier, and requests on host memory are completed by MPI_Waitall and MPI_Test. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 1 << 20, SMALL = 64 };

static void check(cudaError_t status) {
    if (status != cudaSuccess) {
        fprintf(stderr, "known_calls: %s\n", cudaGetErrorString(status));
        exit(3);
    }
}

static void more(int rank, void* device) {
    MPI_Request request;
    for (int i = 0; i < 4; ++i) /* large, in device memory on both ends */
        if (rank == 0)
            MPI_Send(device, LARGE, MPI_BYTE, 1, i, MPI_COMM_WORLD);
        else
            MPI_Recv(device, LARGE, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; ++i) { /* large, without blocking */
        MPI_Iallreduce(MPI_IN_PLACE, device, LARGE / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void wait_for_each_other(int rank, char* host) {
    MPI_Request requests[2];
    int flag = 0;
    if (rank == 0)
        MPI_Send(host, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(host, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        usleep(300000);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Irecv(host, SMALL, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(host + SMALL, SMALL, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    while (!flag)
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
    int rank, devices = 0;
    static char host[LARGE];
    void* device = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 7; ++i) /* host memory */
        MPI_Bcast(host, 1000, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        wait_for_each_other(rank, host);
    if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
        check(cudaSetDevice(argc > 1 && strcmp(argv[1], "share") == 0 ? 0 : rank % devices));
        check(cudaMalloc(&device, LARGE));
        check(cudaMemset(device, 0, LARGE));
        for (int i = 0; i < 3; ++i) /* large, in device memory on all ranks */
            MPI_Allreduce(MPI_IN_PLACE, device, LARGE / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 5; ++i) /* small */
            MPI_Bcast(device, SMALL, MPI_BYTE, 0, MPI_COMM_WORLD);
        for (int i = 0; i < 2; ++i) /* large, in device memory on rank 0 alone */
            MPI_Bcast(rank == 0 ? device : host, LARGE, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (argc > 1 && strcmp(argv[1], "more") == 0)
            more(rank, device);
        check(cudaFree(device));
    }
    MPI_Finalize();
    return 0;
}
