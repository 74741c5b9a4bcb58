// Device code that takes memory of its own: malloc and free, new and delete, objects with virtual functions.
// engine.test builds it with nvcc and runs it. The expected values are arithmetic.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

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

struct Shape {
    __device__ virtual int area() const { return 0; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    __device__ explicit Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
    int side;
};

__global__ void fill(int** blocks, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    blocks[i] = static_cast<int*>(malloc(sizeof(int) * (i + 1)));
    for (int j = 0; blocks[i] != nullptr && j <= i; ++j)
        blocks[i][j] = i * j;
}

// In another launch than the one that took the memory, as CUDA allows.
__global__ void add_and_free(int** blocks, long long* sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    long long sum = reinterpret_cast<size_t>(blocks[i]) % 16;  // 0: blocks are aligned
    for (int j = 0; j <= i; ++j)
        sum += blocks[i][j];
    sums[i] = sum;
    free(blocks[i]);
}

__global__ void areas(int* to) {
    const Shape* const shape = new Square(threadIdx.x);
    to[threadIdx.x] = shape->area();
    delete shape;
}

// How many blocks of this size the heap has room for.
__global__ void exhaust(int* count, size_t bytes) {
    void* first = nullptr;
    for (void** block; (block = static_cast<void**>(malloc(bytes))) != nullptr; first = block) {
        *block = first;
        ++*count;
    }
    while (first != nullptr) {
        void* const next = *static_cast<void**>(first);
        free(first);
        first = next;
    }
    free(nullptr);
}

__global__ void free_it(void* address) {
    free(address);
}

static int compute() {
    constexpr int n = 500;
    int** blocks = nullptr;
    long long* sums = nullptr;
    int* out = nullptr;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4 << 20));
    CHECK(cudaMallocManaged(&blocks, n * sizeof *blocks));
    CHECK(cudaMallocManaged(&sums, n * sizeof *sums));
    CHECK(cudaMallocManaged(&out, 64 * sizeof *out));
    for (int round = 0; round < 12; ++round) {  // more than the heap's size in all
        fill<<<4, 128>>>(blocks, n);
        add_and_free<<<4, 128>>>(blocks, sums, n);
        areas<<<1, 64>>>(out);
        CHECK(cudaDeviceSynchronize());
        for (long long i = 0; i < n; ++i)
            EXPECT(sums[i] == i * i * (i + 1) / 2);
        for (int i = 0; i < 64; ++i)
            EXPECT(out[i] == i * i);
    }
    for (int round = 0; round < 2; ++round) {  // all of it is there again
        *out = 0;
        exhaust<<<1, 1>>>(out, 1 << 16);
        CHECK(cudaDeviceSynchronize());
        EXPECT(*out > 48 && *out <= 64);
    }
    size_t bytes = 0;
    CHECK(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
    EXPECT(bytes == 4 << 20);
    EXPECT(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8 << 20) == cudaErrorInvalidValue);  // it is in use
    std::printf("all is right\n");
    return 0;
}

static int fail() {
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, 64));
    free_it<<<1, 1>>>(memory);
    EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    std::printf("failed as it should\n");
    return 0;
}

int main(int argc, char** argv) {
    return argc > 1 && std::strcmp(argv[1], "wrong") == 0 ? fail() : compute();
}
