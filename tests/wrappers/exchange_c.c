/* A C program's send and receive, broadcast, reduction and gathering arrive, on host and on device memory.
   launch: -n 2 -- host
   launch: -n 3 --gpus 3 -- host
   launch: -n 2 --gpus 2 -- device
   launch: -n 3 --gpus 2 -- device */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_memory.h"

enum { kCount = 50000 };

static int on_device;
static int failures;

static int* make(const int* values, int count) {
    int* memory = on_device ? device_alloc(count * sizeof(int)) : malloc(count * sizeof(int));
    if (on_device)
        device_copy(memory, values, count * sizeof(int));
    else
        memcpy(memory, values, count * sizeof(int));
    return memory;
}

static void check_and_free(const char* what, int* memory, const int* expected, int count) {
    int* got = malloc(count * sizeof(int));
    if (on_device)
        device_copy(got, memory, count * sizeof(int));
    else
        memcpy(got, memory, count * sizeof(int));
    for (int i = 0; i < count; i++) {
        if (got[i] != expected[i]) {
            fprintf(stderr, "%s: element %d is %d, not %d\n", what, i, got[i], expected[i]);
            failures++;
            break;
        }
    }
    free(got);
    if (on_device)
        device_free(memory);
    else
        free(memory);
}

static int* pattern(int rank, int count) {
    int* values = malloc(count * sizeof(int));
    for (int i = 0; i < count; i++)
        values[i] = 1000 * rank + i % 997;
    return values;
}

static void send_receive(int rank, int size) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, received = 0;
    int *mine = pattern(rank, kCount), *theirs = pattern(previous, kCount), *zero = calloc(kCount, sizeof(int));
    int *out = make(mine, kCount), *in = make(zero, kCount);
    MPI_Status status;
    if (rank % 2 == 0) {
        MPI_Send(out, kCount, MPI_INT, next, 5, MPI_COMM_WORLD);
        MPI_Recv(in, kCount, MPI_INT, previous, 5, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(in, kCount, MPI_INT, previous, 5, MPI_COMM_WORLD, &status);
        MPI_Send(out, kCount, MPI_INT, next, 5, MPI_COMM_WORLD);
    }
    MPI_Get_count(&status, MPI_INT, &received);
    if (received != kCount || status.MPI_SOURCE != previous || status.MPI_TAG != 5) {
        fprintf(stderr, "the status says %d elements from %d\n", received, status.MPI_SOURCE);
        failures++;
    }
    check_and_free("MPI_Recv", in, theirs, kCount);
    check_and_free("MPI_Send's buffer", out, mine, kCount);
    free(mine);
    free(theirs);
    free(zero);
}

static void collectives(int rank, int size) {
    int *mine = pattern(rank, kCount), *first = pattern(0, kCount), *sums = calloc(kCount, sizeof(int));
    for (int i = 0; i < kCount; i++)
        sums[i] = 1000 * size * (size - 1) / 2 + size * (i % 997);
    int* buffer = make(mine, kCount);
    MPI_Bcast(buffer, kCount, MPI_INT, 0, MPI_COMM_WORLD);
    check_and_free("MPI_Bcast", buffer, first, kCount);

    int *in = make(mine, kCount), *out = make(first, kCount);
    MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check_and_free("MPI_Allreduce", out, sums, kCount);
    check_and_free("MPI_Allreduce's input", in, mine, kCount);

    /* Rank r gives r + 1 elements; the root leaves a gap after each block. */
    int *counts = malloc(size * sizeof(int)), *displs = malloc(size * sizeof(int)), total = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = r + 1;
        displs[r] = total;
        total += r + 2;
    }
    int *gaps = malloc(total * sizeof(int)), *expected = malloc(total * sizeof(int));
    for (int i = 0; i < total; i++)
        gaps[i] = expected[i] = -7;
    for (int r = 0; r < size && rank == 0; r++)
        for (int i = 0; i <= r; i++)
            expected[displs[r] + i] = 1000 * r + i;
    int *part = make(mine, rank + 1), *all = make(gaps, total);
    MPI_Gatherv(part, rank + 1, MPI_INT, all, counts, displs, MPI_INT, 0, MPI_COMM_WORLD);
    check_and_free("MPI_Gatherv", all, expected, total);
    check_and_free("MPI_Gatherv's input", part, mine, rank + 1);
    free(counts);
    free(displs);
    free(gaps);
    free(expected);
    free(mine);
    free(first);
    free(sums);
}

int main(int argc, char** argv) {
    int rank, size, all_failures = 0;
    on_device = argc > 1 && strcmp(argv[1], "device") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    send_receive(rank, size);
    collectives(rank, size);
    MPI_Reduce(&failures, &all_failures, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures + all_failures != 0;
}
