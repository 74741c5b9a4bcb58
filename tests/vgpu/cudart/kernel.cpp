// Kernels and device variables as nvcc's host code registers and launches them, by hand: this test needs no nvcc.
// VGPU_KERNELS names the library made of twins.cpp.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "../real.hpp"

// Compiler-generated host code calls these; crt/host_runtime.h declares them for nvcc alone.
extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int);
char __cudaInitModule(void**);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, CUstream_st*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
}

namespace {

// Host stubs: only their addresses matter.
char axpy, scale, untwinned, never_registered;
float factor;
int* total;

constexpr int kValues = 500;

class Kernel : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        if (vgpu::test::on_real_gpus())
            return;
        binary_ = __cudaRegisterFatBinary(nullptr);
        register_kernel(&axpy, "_Z4axpyifPKfPf");
        register_kernel(&scale, "_Z5scalePfi");
        register_kernel(&untwinned, "_Z9untwinnedv");
        __cudaRegisterVar(binary_, reinterpret_cast<char*>(&factor), nullptr, "factor", 0, sizeof(float), 1, 0);
        __cudaRegisterManagedVar(binary_, reinterpret_cast<void**>(&total), nullptr, "total", 0, sizeof(int), 0, 0);
        __cudaRegisterFatBinaryEnd(binary_);
    }
    static void TearDownTestSuite() {
        if (binary_ != nullptr)
            __cudaUnregisterFatBinary(binary_);
    }
    static void register_kernel(const char* stub, const char* name) {
        __cudaRegisterFunction(binary_, stub, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    }

    void SetUp() override {
        VIRTUAL_ONLY("twins of kernels");
        ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
        fill(1);
    }
    void TearDown() override {
        EXPECT_EQ(cudaFree(values_), cudaSuccess);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "left by the test";
    }
    // Fresh values on the current device.
    void fill(float value) {
        cudaFree(values_);
        const std::vector<float> host(kValues, value);
        ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&values_), sizeof(float) * kValues), cudaSuccess);
        ASSERT_EQ(cudaMemcpy(values_, host.data(), sizeof(float) * kValues, cudaMemcpyHostToDevice), cudaSuccess);
    }
    void expect_all(float value) const {
        std::vector<float> host(kValues);
        ASSERT_EQ(cudaMemcpy(host.data(), values_, sizeof(float) * kValues, cudaMemcpyDeviceToHost), cudaSuccess);
        EXPECT_EQ(host, std::vector<float>(kValues, value));
    }
    cudaError_t launch_scale(cudaStream_t stream = nullptr) {
        int n = kValues;
        void* arguments[] = {&values_, &n};
        return cudaLaunchKernel(&scale, dim3{4, 1, 1}, dim3{128, 1, 1}, arguments, 0, stream);
    }

    static inline void** binary_ = nullptr;
    float* values_ = nullptr;
};

}  // namespace

TEST_F(Kernel, runs_its_twin_by_the_name_it_was_registered_under) {
    int n = kValues;
    float a = 4;
    void* arguments[] = {&n, &a, &values_, &values_};
    ASSERT_EQ(cudaLaunchKernel(&axpy, dim3{4, 1, 1}, dim3{128, 1, 1}, arguments, 0, nullptr), cudaSuccess);
    expect_all(5);
}

TEST_F(Kernel, is_launched_as_cuda_13s_host_stubs_do_it) {
    ASSERT_EQ(__cudaPushCallConfiguration(dim3{4, 1, 1}, dim3{128, 1, 1}, 0, nullptr), 0u);
    cudaKernel_t handle = nullptr;
    ASSERT_EQ(__cudaGetKernel(&handle, &axpy), cudaSuccess);
    dim3 grid, block;
    size_t shared = 1;
    cudaStream_t stream = cudaStreamPerThread;
    ASSERT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
    EXPECT_EQ(grid.x, 4u);
    EXPECT_EQ(block.x, 128u);
    EXPECT_EQ(shared, 0u);
    EXPECT_EQ(stream, nullptr);
    int n = kValues;
    float a = 2;
    void* arguments[] = {&n, &a, &values_, &values_};
    ASSERT_EQ(__cudaLaunchKernel(handle, grid, block, arguments, shared, stream), cudaSuccess);
    expect_all(3);
    EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMissingConfiguration);
}

TEST_F(Kernel, without_a_twin_is_an_invalid_device_function) {
    const dim3 one{1, 1, 1};
    EXPECT_EQ(cudaLaunchKernel(&untwinned, one, one, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaLaunchKernel(&never_registered, one, one, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, &untwinned), cudaErrorInvalidDeviceFunction);
    cudaKernel_t handle = nullptr;
    EXPECT_EQ(__cudaGetKernel(&handle, &untwinned), cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(__cudaLaunchKernel(handle, one, one, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
}

TEST_F(Kernel, of_an_impossible_shape_is_an_invalid_configuration) {
    int n = 0;
    void* arguments[] = {&values_, &n};
    const dim3 one{1, 1, 1};
    for (const auto& [grid, block] : std::vector<std::pair<dim3, dim3>>{
             {dim3{0, 1, 1}, one}, {one, dim3{1025, 1, 1}}, {one, dim3{32, 33, 1}}, {one, dim3{1, 1, 65}}})
        EXPECT_EQ(cudaLaunchKernel(&scale, grid, block, arguments, 0, nullptr), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(Kernel, reads_a_variable_that_each_device_has_of_its_own) {
    ASSERT_EQ(launch_scale(), cudaSuccess);
    expect_all(3);
    const float six = 6;
    ASSERT_EQ(cudaMemcpyToSymbol(&factor, &six, sizeof six, 0, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(launch_scale(), cudaSuccess);
    expect_all(18);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    fill(1);
    ASSERT_EQ(launch_scale(), cudaSuccess);
    expect_all(3);
    float there = 0;
    EXPECT_EQ(cudaMemcpyFromSymbol(&there, &factor, sizeof there, 0, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(there, 3);
    void* address = nullptr;
    size_t bytes = 0;
    EXPECT_EQ(cudaGetSymbolAddress(&address, &factor), cudaSuccess);
    EXPECT_EQ(cudaGetSymbolSize(&bytes, &factor), cudaSuccess);
    EXPECT_EQ(bytes, sizeof(float));
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, address), cudaSuccess);
    EXPECT_EQ(attributes.device, 1);
    EXPECT_EQ(cudaMemcpyToSymbol(&factor, &six, sizeof six, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpyToSymbol(&factor, &six, sizeof six, 0, cudaMemcpyDeviceToHost),
              cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaGetSymbolAddress(&address, &never_registered), cudaErrorInvalidSymbol);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidSymbol);
}

TEST_F(Kernel, reaches_a_managed_variable_that_the_host_reads_too) {
    ASSERT_EQ(__cudaInitModule(binary_), 1);
    ASSERT_NE(total, nullptr);
    EXPECT_EQ(*total, 40);
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, total), cudaSuccess);
    EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
}

TEST_F(Kernel, has_attributes_and_an_occupancy_within_the_devices_limits) {
    cudaFuncAttributes attributes;
    ASSERT_EQ(cudaFuncGetAttributes(&attributes, &axpy), cudaSuccess);
    cudaDeviceProp device;
    ASSERT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
    EXPECT_EQ(attributes.maxThreadsPerBlock, device.maxThreadsPerBlock);
    int blocks = 0;
    ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &axpy, 256, 0), cudaSuccess);
    EXPECT_EQ(blocks, std::min(device.maxThreadsPerMultiProcessor / 256, device.maxBlocksPerMultiProcessor));
    ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &axpy, 32, device.sharedMemPerBlock), cudaSuccess);
    EXPECT_LE(static_cast<size_t>(blocks) * device.sharedMemPerBlock, device.sharedMemPerMultiprocessor);
}

TEST_F(Kernel, launched_with_attributes_goes_to_its_stream) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    int n = kValues;
    float a = 1;
    void* arguments[] = {&n, &a, &values_, &values_};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3{4, 1, 1};
    config.blockDim = dim3{128, 1, 1};
    config.stream = stream;
    ASSERT_EQ(cudaLaunchKernelExC(&config, &axpy, arguments), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    expect_all(2);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}
