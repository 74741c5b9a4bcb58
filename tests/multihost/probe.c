/* Shows where each rank runs, then measures rank 0 <-> last rank.
 * usage: probe [pingpong ITERS BYTES | spin SECONDS] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    int rank, size, shared_size;
    char host[256], name[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm shared;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_size(shared, &shared_size);
    gethostname(host, sizeof host);
    MPI_Get_processor_name(name, &(int){0});
    printf("rank %d pid %d host %s name %s shared %d preload %s\n", rank, (int)getpid(), host, name, shared_size,
           getenv("LD_PRELOAD") ? "yes" : "no");
    fflush(stdout);

    if (argc > 3 && strcmp(argv[1], "pingpong") == 0) {
        int iters = atoi(argv[2]), bytes = atoi(argv[3]), last = size - 1;
        char* buffer = calloc(1, (size_t)bytes + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = 0;
        for (int i = -2; i < iters; i++) {
            if (i == 0)
                start = MPI_Wtime();
            if (rank == 0) {
                MPI_Send(buffer, bytes, MPI_CHAR, last, 0, MPI_COMM_WORLD);
                MPI_Recv(buffer, bytes, MPI_CHAR, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (rank == last) {
                MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            }
        }
        double each = (MPI_Wtime() - start) / iters / 2;
        if (rank == 0)
            printf("pingpong bytes %d one-way-us %.1f MB/s %.1f\n", bytes, each * 1e6, bytes / each / 1e6);
        free(buffer);
    } else if (argc > 2 && strcmp(argv[1], "spin") == 0) {
        double start = MPI_Wtime(), stop = 0, sum;
        while (stop - start < atof(argv[2])) {
            double mine = MPI_Wtime();
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            stop = mine;
            MPI_Bcast(&stop, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            usleep(10000);
        }
    }
    MPI_Comm_free(&shared);
    MPI_Finalize();
    return 0;
}
