/* A program of that MPI. */
int MPI_Init(int* argc, char*** argv);
int MPI_Bcast(void* buffer, int count, int type, int root, int comm);
int MPI_Finalize(void);

int main(int argc, char** argv) {
    char buffer[7] = "";
    MPI_Init(&argc, &argv);
    MPI_Bcast(buffer, 7, 0x4c00010d, 0, 0x44000000);
    return MPI_Finalize();
}
