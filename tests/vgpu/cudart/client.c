/* A program as a user has it: C, built with the CUDA toolkit, nothing of Switchyard's. clients.test runs it on virtual
 * GPUs. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                               \
    do {                                                          \
        cudaError_t error = (call);                               \
        if (error != cudaSuccess) {                               \
            printf("%s: %s\n", #call, cudaGetErrorString(error)); \
            return 1;                                             \
        }                                                         \
    } while (0)

enum { kValues = 1 << 18 };

int main(void) {
    int count = 0, version = 0, i;
    double *device = NULL, *host = malloc(kValues * sizeof *host);
    struct cudaDeviceProp properties;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    float milliseconds = -1;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaSetDevice(count - 1));
    CHECK(cudaGetDeviceProperties(&properties, count - 1));
    CHECK(cudaRuntimeGetVersion(&version));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaMalloc((void**)&device, kValues * sizeof *device));
    for (i = 0; i < kValues; ++i)
        host[i] = i * 0.5;
    CHECK(cudaEventRecord(start, stream));
    CHECK(cudaMemcpyAsync(device, host, kValues * sizeof *host, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(device, 0, kValues / 2 * sizeof *host, stream));
    CHECK(cudaMemcpyAsync(host, device, kValues * sizeof *host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventRecord(stop, stream));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    for (i = 0; i < kValues; ++i)
        if (host[i] != (i < kValues / 2 ? 0 : i * 0.5)) {
            printf("value %d is %g\n", i, host[i]);
            return 1;
        }
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaDeviceReset());
    free(host);
    printf("client: %d devices, %s, runtime %d\n", count, properties.name, version);
    return milliseconds < 0 || properties.totalGlobalMem == 0;
}
