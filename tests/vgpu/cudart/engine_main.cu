// Half of a program built with nvcc -rdc=true: the kernel calls a function of engine_function.cu.
#include <cuda_runtime.h>

#include <cstdio>

extern __device__ int offset;
extern __device__ int twice_and(int value);

__global__ void kernel(int* to) {
    *to = twice_and(20) + offset;
}

int main() {
    int *to = nullptr, result = 0;
    cudaMalloc(&to, sizeof *to);
    kernel<<<1, 1>>>(to);
    const cudaError_t error = cudaMemcpy(&result, to, sizeof result, cudaMemcpyDeviceToHost);
    std::printf("result %d: %s\n", result, cudaGetErrorName(error));
    return result != 43;
}
