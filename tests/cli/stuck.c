/* Stops where status.test knows, on device memory, until a file is there. The first argument says in what:
 *
 * collective: the last rank is in MPI_Recv of a message that rank 0 sends last, the others in their third
 * MPI_Allreduce.
 *
 * different: of the lower half of the ranks, rank 0 is elsewhere and the rest are in their second MPI_Allreduce.
 *
 * message: rank 0 has begun a receive, has sent 600 messages and waits for that one.
 *
 * nowhere: all are between two calls.
 *
 * abort, exit, fault: the last rank waits for the file and then calls MPI_Abort, exits or reads address 8, the others
 * are in their third MPI_Allreduce.
 *
 * finalize: rank 0 is elsewhere, the others are in MPI_Finalize.
 *
 * handler: as nowhere, but the program handles SIGTERM itself: it prints a line and exits with status 4.
 *
 * The second argument names the file. Each rank prints `pid RANK NUMBER` at the start. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, FLOATS = BYTES / 4 };

static const char* file;
static volatile int* volatile nobodys = (int*)8;

static void wait_for_file(void) {
    while (access(file, F_OK) != 0)
        usleep(10000);
}

static void sum(void* device, MPI_Comm comm) {
    MPI_Allreduce(MPI_IN_PLACE, device, FLOATS, MPI_FLOAT, MPI_SUM, comm);
}

static void collective(int rank, int size, void* device) {
    sum(device, MPI_COMM_WORLD);
    sum(device, MPI_COMM_WORLD);
    if (rank == size - 1)
        MPI_Recv(device, BYTES, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum(device, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Send(device, BYTES, MPI_BYTE, size - 1, 7, MPI_COMM_WORLD);
}

static void different(int rank, int size, void* device) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
    MPI_Comm_set_name(half, "half");
    sum(device, half);
    if (rank < size / 2 && rank != 0)
        sum(device, half);
    else if (rank == 0)
        wait_for_file();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void message(int rank, void* device, void* other) {
    MPI_Request request;
    MPI_Status status;
    if (rank == 0) {
        MPI_Irecv(device, BYTES, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 600; ++i)
            MPI_Send(other, 8, MPI_BYTE, 1, i, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < 600; ++i)
            MPI_Recv(other, 8, MPI_BYTE, 0, i, MPI_COMM_WORLD, &status);
        wait_for_file();
        MPI_Send(device, BYTES, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
}

static void late(int rank, void* device) {
    sum(device, MPI_COMM_WORLD);
    if (rank == 0)
        wait_for_file();
}

static void end(const char* how, int rank, int size, void* device) {
    sum(device, MPI_COMM_WORLD);
    sum(device, MPI_COMM_WORLD);
    if (rank == size - 1) {
        wait_for_file();
        if (strcmp(how, "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, 5);
        else if (strcmp(how, "exit") == 0)
            exit(6);
        else
            exit(*nobodys);
    }
    sum(device, MPI_COMM_WORLD);
}

static void handle(int number) {
    static const char words[] = "the program's own handler\n";
    if (number == SIGTERM && write(1, words, sizeof words - 1) > 0)
        _exit(4);
}

int main(int argc, char** argv) {
    int rank, size, devices = 0;
    void *device = NULL, *other = NULL;
    if (argc != 3)
        return 2;
    file = argv[2];
    if (strcmp(argv[1], "handler") == 0)
        signal(SIGTERM, handle);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("pid %d %d\n", rank, (int)getpid());
    fflush(stdout);
    if (cudaGetDeviceCount(&devices) != cudaSuccess || cudaSetDevice(rank % devices) != cudaSuccess ||
        cudaMalloc(&device, BYTES) != cudaSuccess || cudaMalloc(&other, BYTES) != cudaSuccess ||
        cudaMemset(device, 0, BYTES) != cudaSuccess)
        return 3;
    if (strcmp(argv[1], "collective") == 0)
        collective(rank, size, device);
    else if (strcmp(argv[1], "different") == 0)
        different(rank, size, device);
    else if (strcmp(argv[1], "message") == 0)
        message(rank, device, other);
    else if (strcmp(argv[1], "finalize") == 0)
        late(rank, device);
    else if (strcmp(argv[1], "nowhere") != 0 && strcmp(argv[1], "handler") != 0)
        end(argv[1], rank, size, device);
    else
        sum(device, MPI_COMM_WORLD), wait_for_file();
    MPI_Finalize();
    return 0;
}
