/* A profiling library as MPI's profiling interface means it (MPI 3.1 section 14.2): defines MPI_X, counts, calls
   PMPI_X. At MPI_Finalize it prints its counts. */
#include <mpi.h>
#include <stdio.h>

static int sends, receives, broadcasts, reductions, gathers;

int MPI_Send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    receives++;
    return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
    broadcasts++;
    return PMPI_Bcast(buffer, count, datatype, root, comm);
}

int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    reductions++;
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

int MPI_Gatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm) {
    gathers++;
    return PMPI_Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm);
}

int MPI_Finalize(void) {
    printf("profiler: %d sends %d receives %d broadcasts %d reductions %d gathers\n", sends, receives, broadcasts,
           reductions, gathers);
    fflush(stdout);
    return PMPI_Finalize();
}
