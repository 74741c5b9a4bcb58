// A program as a user has it, built by nvcc, with no twin anywhere: the virtual GPUs run its device code.
// engine.test builds it in several ways and runs it.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstring>
#include <vector>

#define CHECK(call)                                                    \
    do {                                                               \
        const cudaError_t error = (call);                              \
        if (error != cudaSuccess) {                                    \
            std::printf("%s: %s\n", #call, cudaGetErrorString(error)); \
            return 1;                                                  \
        }                                                              \
    } while (0)
#define EXPECT(condition)                         \
    do {                                          \
        if (!(condition)) {                       \
            std::printf("not: %s\n", #condition); \
            return 1;                             \
        }                                         \
    } while (0)

__device__ int counter = 40;
__device__ int* pointer = &counter;
__constant__ float factors[4] = {1, 2, 3, 4};
__managed__ int total = 7;

__global__ void saxpy(int n, float a, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

__global__ void variables(float* to) {
    *to = factors[threadIdx.x] + 0.5F;
    atomicAdd(pointer, 1);
    atomicAdd(&total, 1);
}

template <class T>
__global__ void sum(const T* values, int n, T* to) {
    __shared__ T partial[256];
    T own = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        own += values[i];
    partial[threadIdx.x] = own;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *to = partial[0];
}

// Adds up what each block has stored, which all have done when the grid is in step.
__global__ void together(int* to) {
    __shared__ int own;
    own = static_cast<int>(blockIdx.x) + 1;
    __syncthreads();
    if (threadIdx.x == 0)
        to[1 + blockIdx.x] = own;
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *to = 0;
        for (unsigned i = 1; i <= gridDim.x; ++i)
            *to += to[i];
    }
}

__global__ void speak(int value) {
    printf("thread %d of block %d says %d\n", threadIdx.x, blockIdx.x, value);
}

__global__ void insist(int value) {
    assert(value == 1);
}

__global__ void stray(int* to) {
    to[1 << 28] = 1;
}

static int compute() {
    constexpr int n = 1000;
    std::vector<float> x(n), y(n, 1);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<float>(i);
    float *dx = nullptr, *dy = nullptr;
    CHECK(cudaMalloc(&dx, n * sizeof(float)));
    CHECK(cudaMalloc(&dy, n * sizeof(float)));
    CHECK(cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    cudaStream_t stream;
    cudaEvent_t done;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&done));
    saxpy<<<(n + 255) / 256, 256>>>(n, 3.0F, dx, dy);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
        EXPECT(y[i] == 3.0F * i + 1);
    sum<float><<<1, 256, 0, stream>>>(dx, n, dy);
    CHECK(cudaEventRecord(done, stream));
    CHECK(cudaEventSynchronize(done));
    CHECK(cudaMemcpy(y.data(), dy, sizeof(float), cudaMemcpyDeviceToHost));
    EXPECT(y[0] == 499500.0F);
    const std::vector<int> ones(300, 1);
    CHECK(cudaMemcpy(dx, ones.data(), 300 * sizeof(int), cudaMemcpyHostToDevice));
    sum<int><<<1, 256>>>(reinterpret_cast<int*>(dx), 300, reinterpret_cast<int*>(dy));
    int result = 0;
    CHECK(cudaMemcpy(&result, dy, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT(result == 300);
    EXPECT(total == 7);
    variables<<<1, 3>>>(dy);
    CHECK(cudaDeviceSynchronize());
    EXPECT(total == 10);
    CHECK(cudaMemcpyFromSymbol(&result, counter, sizeof result));
    EXPECT(result == 43);
    const float other[4] = {9, 9, 9, 9};
    CHECK(cudaMemcpyToSymbol(factors, other, sizeof other));
    variables<<<1, 1>>>(dy);
    CHECK(cudaMemcpy(y.data(), dy, sizeof(float), cudaMemcpyDeviceToHost));
    EXPECT(y[0] == 9.5F);
    cudaLaunchAttribute cooperative{};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = 8;
    config.blockDim = 32;
    config.attrs = &cooperative;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, together, reinterpret_cast<int*>(dy)));
    CHECK(cudaMemcpy(&result, dy, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT(result == 36);
    int* where = reinterpret_cast<int*>(dy);
    void* list[] = {&where};
    CHECK(cudaMemset(dy, 0, sizeof result));
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(together), 8, 32, list));
    CHECK(cudaMemcpy(&result, dy, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT(result == 36);
    config.gridDim = 1 << 20;
    EXPECT(cudaLaunchKernelEx(&config, together, reinterpret_cast<int*>(dy)) == cudaErrorCooperativeLaunchTooLarge);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, sum<float>));
    EXPECT(attributes.sharedSizeBytes == 1024);
    speak<<<1, 1>>>(17);
    CHECK(cudaDeviceSynchronize());
    std::printf("all is right\n");
    return 0;
}

// A kernel's failure comes out where the program next waits, and in every call on the device from then on.
static int fail(bool by_assertion) {
    int* memory = nullptr;
    CHECK(cudaMalloc(&memory, 64));
    if (by_assertion)
        insist<<<1, 1>>>(2);
    else
        stray<<<1, 1>>>(memory);
    CHECK(cudaGetLastError());
    const cudaError_t expected = by_assertion ? cudaErrorAssert : cudaErrorIllegalAddress;
    EXPECT(cudaDeviceSynchronize() == expected);
    EXPECT(cudaMemset(memory, 0, 64) == expected);
    EXPECT(cudaDeviceSynchronize() == expected);
    std::printf("failed as it should\n");
    return 0;
}

int main(int argc, char** argv) {
    return argc > 1 ? fail(std::strcmp(argv[1], "assert") == 0) : compute();
}
