/* Stands for MPICH's library: its names, its integers for handles, and what newcomer.test asks of it. */
#include <stdio.h>

int PMPI_Init(int* argc, char*** argv) {
    (void)argc, (void)argv;
    puts("another MPI begins");
    return 0;
}
int PMPI_Bcast(void* buffer, int count, int type, int root, int comm) {
    (void)buffer;
    printf("another MPI broadcasts %d of %#x from %d on %#x\n", count, (unsigned)type, root, (unsigned)comm);
    return 0;
}
int PMPI_Finalize(void) {
    puts("another MPI ends");
    return 0;
}
int MPI_Init(int* argc, char*** argv) __attribute__((alias("PMPI_Init")));
int MPI_Bcast(void* buffer, int count, int type, int root, int comm) __attribute__((alias("PMPI_Bcast")));
int MPI_Finalize(void) __attribute__((alias("PMPI_Finalize")));
