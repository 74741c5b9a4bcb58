// Two ranks with the static CUDA runtime in them: what a kernel wrote on one's device comes to the other's by MPI.
#include <cuda_runtime.h>
#include <mpi.h>

#include <cstdio>
#include <vector>

__global__ void fill(int* all, int number, int first) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < number)
        all[i] = first + i;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    constexpr int kNumber = 100000;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cudaSetDevice(rank);
    int* device = nullptr;
    if (cudaMalloc(&device, kNumber * sizeof(int)) != cudaSuccess)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fill<<<(kNumber + 127) / 128, 128>>>(device, kNumber, rank == 0 ? 7 : 0);
    cudaDeviceSynchronize();
    int wrong = 0;
    if (rank == 0) {
        MPI_Send(device, kNumber, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(device, kNumber, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        std::vector<int> all(kNumber);
        cudaMemcpy(all.data(), device, kNumber * sizeof(int), cudaMemcpyDeviceToHost);
        for (int i = 0; i < kNumber; ++i)
            wrong += all[i] != 7 + i;
        std::printf("%d of %d wrong\n", wrong, kNumber);
    }
    cudaFree(device);
    MPI_Finalize();
    return wrong != 0;
}
