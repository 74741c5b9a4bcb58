/* Receives with tag 2 are kept on their way into MPI for a while, the first one and then now and then, as the system
 * does with a thread that has used up its time. Loaded behind the library, by probing.test. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <time.h>

__attribute__((visibility("default"))) int receives_detained = 0;

static void detain(int tag) {
    static int calls = 0;
    const struct timespec a_while = {0, 3000000}, long_while = {0, 60000000};
    if (tag == 2 && calls++ % 4 == 0) {
        nanosleep(receives_detained++ == 0 ? &long_while : &a_while, NULL);
    }
}

__attribute__((visibility("default"))) int PMPI_Recv(void* buf, int count, MPI_Datatype type, int source, int tag,
                                                     MPI_Comm comm, MPI_Status* status) {
    static int (*real)(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);
    if (real == NULL)
        *(void**)&real = dlsym(RTLD_NEXT, "PMPI_Recv");
    detain(tag);
    return real(buf, count, type, source, tag, comm, status);
}

__attribute__((visibility("default"))) int PMPI_Irecv(void* buf, int count, MPI_Datatype type, int source, int tag,
                                                      MPI_Comm comm, MPI_Request* request) {
    static int (*real)(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
    if (real == NULL)
        *(void**)&real = dlsym(RTLD_NEXT, "PMPI_Irecv");
    detain(tag);
    return real(buf, count, type, source, tag, comm, request);
}
