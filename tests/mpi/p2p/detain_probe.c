/* MPI_Iprobe with tag 1 is kept a while where it first lets go of a lock, as the system does with a thread that has
 * used up its time. Loaded behind the library, by probe_status.test. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <time.h>

__attribute__((visibility("default"))) int probes_detained = 0;

static __thread int probing = 0;

__attribute__((visibility("default"))) int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag,
                                                       MPI_Status* status) {
    static int (*real)(int, int, MPI_Comm, int*, MPI_Status*);
    int code = MPI_SUCCESS;
    if (real == NULL)
        *(void**)&real = dlsym(RTLD_NEXT, "PMPI_Iprobe");
    probing = tag == 1;
    code = real(source, tag, comm, flag, status);
    probing = 0;
    return code;
}

/* With the library away this is the program's. */
__attribute__((visibility("default"))) int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag,
                                                      MPI_Status* status) {
    return PMPI_Iprobe(source, tag, comm, flag, status);
}

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t* mutex) {
    static int (*real)(pthread_mutex_t*);
    const struct timespec a_while = {0, 5000000};
    int code = 0;
    if (real == NULL)
        *(void**)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    code = real(mutex);
    if (probing) {
        probing = 0;
        ++probes_detained;
        nanosleep(&a_while, NULL);
    }
    return code;
}
