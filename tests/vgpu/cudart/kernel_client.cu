// A program with kernels as a user has it: built by nvcc, nothing of Switchyard's. clients.test runs it on virtual
// GPUs, with twins.cpp and without, where its device code is run.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#define CHECK(call)                                                    \
    do {                                                               \
        const cudaError_t error = (call);                              \
        if (error != cudaSuccess) {                                    \
            std::printf("%s: %s\n", #call, cudaGetErrorString(error)); \
            return 1;                                                  \
        }                                                              \
    } while (0)

__constant__ float factor = 3;
__managed__ int total = 40;

__global__ void axpy(int n, float a, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

__global__ void scale(float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= factor;
}

template <class T>
__global__ void add(T* to, T value) {
    atomicAdd(to, value);
}

__global__ void nobody_wrote_a_twin_for_this() {}

int main() {
    constexpr int n = 1000;
    std::vector<float> x(n, 2), y(n, 1);
    float *dx = nullptr, *dy = nullptr;
    CHECK(cudaMalloc(&dx, n * sizeof(float)));
    CHECK(cudaMalloc(&dy, n * sizeof(float)));
    CHECK(cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    int blocks = 0, threads = 0;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, axpy));
    axpy<<<(n + 255) / 256, 256>>>(n, 4.0F, dx, dy);  // 1 + 4 * 2 = 9
    CHECK(cudaGetLastError());
    scale<<<(n + 255) / 256, 256>>>(dy, n);  // 27
    CHECK(cudaGetLastError());
    const float half = 0.5F;
    CHECK(cudaMemcpyToSymbol(factor, &half, sizeof half));
    scale<<<(n + 255) / 256, 256>>>(dy, n);  // 13.5
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
        if (y[i] != 13.5F) {
            std::printf("value %d is %g\n", i, y[i]);
            return 1;
        }
    add<<<2, 3>>>(&total, 10);
    CHECK(cudaDeviceSynchronize());
    if (total != 100) {
        std::printf("total is %d\n", total);
        return 1;
    }
    nobody_wrote_a_twin_for_this<<<1, 1>>>();
    CHECK(cudaGetLastError());
    axpy<<<0, 1>>>(0, 0.0F, nullptr, nullptr);
    const cudaError_t shape = cudaGetLastError();
    std::printf("kernel client: %d threads a block; no blocks: %s\n", threads, cudaGetErrorName(shape));
    return shape != cudaErrorInvalidConfiguration || threads <= 0;
}
