// Each rank fills a vector by a kernel of its own with its number plus one; MPI sums the vectors in device memory.
#include <mpi.h>
#include <cstdio>

__global__ void fill(float* values, int count, float value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = value;
}

int main(int argc, char** argv) {
    const int count = 1 << 20;
    int rank, size, gpus, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    float *values, *host = new float[count];
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || cudaSetDevice(rank % gpus) != cudaSuccess ||
        cudaMalloc(&values, count * sizeof(float)) != cudaSuccess)
        MPI_Abort(MPI_COMM_WORLD, 3);
    fill<<<(count + 255) / 256, 256>>>(values, count, rank + 1.0F);
    cudaDeviceSynchronize();
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    cudaMemcpy(host, values, count * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < count; i++)
        wrong += host[i] != size * (size + 1) / 2.0F;
    if (rank == 0)
        std::printf("%d values in device memory, %d wrong: %s\n", count, wrong, wrong == 0 ? "passed" : "failed");
    delete[] host;
    cudaFree(values);
    MPI_Finalize();
    return wrong != 0;
}
