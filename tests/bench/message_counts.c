/* Counts the messages that leave through MPI, for messages.test: preloaded after libswitchyard.so, whose real functions
 * are then these. Between MPI_Pcontrol(1) and MPI_Pcontrol(0), and written when MPI ends to $MESSAGE_COUNTS.RANK, a
 * line for each kind: "world" or "private" (a communicator other than MPI_COMM_WORLD), bytes, how many. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 64 };
static struct {
    int world;
    long long bytes, messages;
} kinds[KINDS];
static int used, counting;

static void* next(const char* name) {
    void* found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "message_counts: no %s\n", name);
        abort();
    }
    return found;
}

static void count(int elements, MPI_Datatype type, MPI_Comm comm) {
    int size, i;
    if (!counting)
        return;
    MPI_Type_size(type, &size);
    const long long bytes = (long long)elements * size;
    const int world = comm == MPI_COMM_WORLD;
    for (i = 0; i < used && (kinds[i].world != world || kinds[i].bytes != bytes);)
        ++i;
    if (i == KINDS) {
        fprintf(stderr, "message_counts: more than %d kinds of messages\n", KINDS);
        abort();
    }
    if (i == used) {
        kinds[used].world = world;
        kinds[used++].bytes = bytes;
    }
    ++kinds[i].messages;
}

/* clang-format off */
#define BLOCKING(NAME)                                                                                   \
    int NAME(const void* data, int elements, MPI_Datatype type, int to, int tag, MPI_Comm comm) {        \
        static int (*real)(const void*, int, MPI_Datatype, int, int, MPI_Comm);                          \
        if (real == NULL)                                                                                \
            *(void**)&real = next(#NAME);                                                                \
        count(elements, type, comm);                                                                     \
        return real(data, elements, type, to, tag, comm);                                                \
    }
#define NON_BLOCKING(NAME)                                                                               \
    int NAME(const void* data, int elements, MPI_Datatype type, int to, int tag, MPI_Comm comm,          \
             MPI_Request* request) {                                                                     \
        static int (*real)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);            \
        if (real == NULL)                                                                                \
            *(void**)&real = next(#NAME);                                                                \
        count(elements, type, comm);                                                                     \
        return real(data, elements, type, to, tag, comm, request);                                       \
    }
/* clang-format on */

BLOCKING(PMPI_Send)
BLOCKING(PMPI_Ssend)
BLOCKING(PMPI_Rsend)
BLOCKING(PMPI_Bsend)
NON_BLOCKING(PMPI_Isend)
NON_BLOCKING(PMPI_Issend)
NON_BLOCKING(PMPI_Irsend)
NON_BLOCKING(PMPI_Ibsend)

int MPI_Pcontrol(const int level, ...) {
    counting = level;
    return MPI_SUCCESS;
}

int PMPI_Finalize(void) {
    int rank;
    char path[4096];
    int (*real)(void);
    *(void**)&real = next("PMPI_Finalize");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", getenv("MESSAGE_COUNTS"), rank);
    FILE* file = fopen(path, "w");
    for (int i = 0; file != NULL && i < used; ++i)
        fprintf(file, "%s %lld %lld\n", kinds[i].world ? "world" : "private", kinds[i].bytes, kinds[i].messages);
    if (file == NULL || fclose(file) != 0) {
        perror(path);
        abort();
    }
    return real();
}
