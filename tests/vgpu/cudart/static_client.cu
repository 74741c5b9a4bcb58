// A program as nvcc builds it by default, with the static CUDA runtime in it: kernels, streams, events, variables of
// the device, managed memory, and calls that the virtual GPUs do not have. Prints what differs from arithmetic.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int kNumber = 1000;
int failures = 0;

void expect(bool right, const char* what) {
    if (!right) {
        std::printf("wrong: %s\n", what);
        ++failures;
    }
}

__constant__ float factors[2];
__device__ int calls = 5;
__managed__ int shared_count = 3;

__global__ void saxpy(int number, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < number)
        y[i] = factors[0] * x[i] + factors[1] * y[i];
    if (i == 0)
        ++calls;
}

__global__ void count(int* all, int number) {
    for (int i = 0; i < number; ++i)
        all[i] = i * i;
    shared_count += number;
}

void launch_on_a_stream() {
    std::vector<float> x(kNumber), y(kNumber);
    for (int i = 0; i < kNumber; ++i) {
        x[i] = static_cast<float>(i);
        y[i] = 1;
    }
    float *device_x = nullptr, *device_y = nullptr;
    const std::size_t bytes = kNumber * sizeof(float);
    expect(cudaMalloc(&device_x, bytes) == cudaSuccess && cudaMalloc(&device_y, bytes) == cudaSuccess, "cudaMalloc");
    const float values[2] = {2, 10};
    expect(cudaMemcpyToSymbol(factors, values, sizeof values) == cudaSuccess, "cudaMemcpyToSymbol");
    cudaStream_t stream;
    cudaEvent_t before, after;
    expect(cudaStreamCreate(&stream) == cudaSuccess, "cudaStreamCreate");
    expect(cudaEventCreate(&before) == cudaSuccess && cudaEventCreate(&after) == cudaSuccess, "cudaEventCreate");
    cudaMemcpyAsync(device_x, x.data(), bytes, cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(device_y, y.data(), bytes, cudaMemcpyHostToDevice, stream);
    cudaEventRecord(before, stream);
    saxpy<<<(kNumber + 255) / 256, 256, 0, stream>>>(kNumber, device_x, device_y);
    expect(cudaGetLastError() == cudaSuccess, "a launch");
    cudaEventRecord(after, stream);
    cudaMemcpyAsync(y.data(), device_y, bytes, cudaMemcpyDeviceToHost, stream);
    expect(cudaStreamSynchronize(stream) == cudaSuccess, "cudaStreamSynchronize");
    float milliseconds = -1;
    expect(cudaEventElapsedTime(&milliseconds, before, after) == cudaSuccess && milliseconds >= 0, "elapsed time");
    bool right = true;
    for (int i = 0; i < kNumber; ++i)
        right = right && y[i] == 2 * static_cast<float>(i) + 10;
    expect(right, "saxpy");
    int called = 0;
    expect(cudaMemcpyFromSymbol(&called, calls, sizeof called) == cudaSuccess && called == 6, "a __device__ variable");
    cudaFree(device_x);
    cudaFree(device_y);
    cudaEventDestroy(before);
    cudaEventDestroy(after);
    cudaStreamDestroy(stream);
}

void use_managed_memory() {
    int* all = nullptr;
    if (cudaMallocManaged(&all, kNumber * sizeof(int)) != cudaSuccess) {
        expect(false, "cudaMallocManaged");
        return;
    }
    count<<<1, 1>>>(all, kNumber);
    expect(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    expect(all[999] == 998001 && shared_count == 1003, "managed memory");
    cudaFree(all);
}

void ask_for_what_is_missing() {
    cudaArray_t array = nullptr;
    const cudaChannelFormatDesc description = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    expect(description.x == 32 && description.w == 0 && description.f == cudaChannelFormatKindFloat, "a description");
    for (int i = 0; i < 2; ++i)
        expect(cudaMallocArray(&array, &description, 16) == cudaErrorNotSupported, "cudaMallocArray");
}

}  // namespace

int main() {
    cudaDeviceProp properties;
    expect(cudaGetDeviceProperties(&properties, 0) == cudaSuccess && properties.warpSize == 32, "properties");
    launch_on_a_stream();
    use_managed_memory();
    ask_for_what_is_missing();
    std::printf("%d wrong\n", failures);
    return failures;
}
