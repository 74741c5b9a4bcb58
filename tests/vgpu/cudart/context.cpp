// Devices, contexts and last errors, as the CUDA Runtime API's manual and the CUDA C++ Programming Guide state them.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../real.hpp"
#include "child.hpp"

// CUDA 12.5's headers and later ones declare it too.
extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                                        unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult* status);

using vgpu::test::run_child;

namespace {

bool primary_is_active(int device) {
    unsigned flags = 0;
    int active = 0;
    EXPECT_EQ(cuDevicePrimaryCtxGetState(device, &flags, &active), CUDA_SUCCESS);
    return active != 0;
}

// A request that no device can meet.
cudaError_t ask_too_much() {
    void* nothing = nullptr;
    return cudaMalloc(&nothing, size_t{1} << 60);
}

}  // namespace

TEST(LastError, is_kept_until_it_is_got_and_a_success_does_not_clear_it) {
    ASSERT_EQ(ask_too_much(), cudaErrorMemoryAllocation);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(LastError, belongs_to_its_thread) {
    ASSERT_EQ(ask_too_much(), cudaErrorMemoryAllocation);
    std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(LastError, is_not_set_by_not_ready) {
    cudaEvent_t event;
    ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
    ASSERT_EQ(cudaLaunchHostFunc(
                  nullptr, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST(Device, that_is_not_there_is_an_invalid_device) {
    int count = 0;
    ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(count), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
    int value = 0;
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, count), cudaErrorInvalidDevice);
    cudaDeviceProp properties;
    EXPECT_EQ(cudaGetDeviceProperties(&properties, count), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(Device, set_is_current_in_this_thread_only_and_its_primary_context_is_the_drivers) {
    NEEDS_DEVICES(2);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1);
    CUcontext current = nullptr;
    CUcontext primary = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
    EXPECT_EQ(current, primary);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    std::thread([] {
        int other = -1;
        EXPECT_EQ(cudaGetDevice(&other), cudaSuccess);
        EXPECT_EQ(other, 0);
    }).join();
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(Device, follows_the_context_that_the_driver_api_makes_current) {
    NEEDS_DEVICES(3);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    CUcontext other = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 2), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 2);
    void* memory = nullptr;
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
    EXPECT_EQ(attributes.device, 2);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(2), CUDA_SUCCESS);
}

TEST(Process, DISABLED_queries) {
    int count = 0;
    int device = -1;
    int value = 0;
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
    ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0), cudaSuccess);
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    for (int each = 0; each < count; ++each)
        EXPECT_FALSE(primary_is_active(each));
    ASSERT_EQ(cudaDeviceReset(),
              cudaSuccess);  // nothing to reset is no error: a program may call it after all else is gone
    EXPECT_FALSE(primary_is_active(0));
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    EXPECT_TRUE(primary_is_active(0));
    EXPECT_FALSE(primary_is_active(1));
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_TRUE(primary_is_active(1));
    ASSERT_EQ(cudaInitDevice(2, 0, 0), cudaSuccess);
    EXPECT_TRUE(primary_is_active(2));
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1);  // cudaInitDevice chooses nothing
}

TEST(Process, has_no_context_before_the_first_call_that_needs_one) {
    NEEDS_DEVICES(3);
    const auto child = run_child("Process.DISABLED_queries");
    EXPECT_TRUE(child.passed()) << child.output;
}

TEST(Process, DISABLED_count_devices) {
    int count = -1;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    EXPECT_EQ(count, -1);  // as it was
    EXPECT_EQ(cudaFree(nullptr), cudaErrorNoDevice);
}

TEST(Process, without_a_visible_device_is_told_no_device) {
    const auto child = run_child("Process.DISABLED_count_devices", {{"CUDA_VISIBLE_DEVICES", ""}});
    EXPECT_TRUE(child.passed()) << child.output;
}

TEST(Process, DISABLED_flags) {
    unsigned flags = 0;
    ASSERT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), cudaSuccess);
    EXPECT_TRUE(primary_is_active(0));  // since CUDA 12
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    ASSERT_EQ(cudaGetDeviceFlags(&flags), cudaSuccess);
    EXPECT_EQ(flags & cudaDeviceScheduleMask, unsigned{cudaDeviceScheduleBlockingSync});
    EXPECT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceScheduleYield), cudaErrorInvalidValue);
    EXPECT_EQ(cudaSetDeviceFlags(0x10000), cudaErrorInvalidValue);
}

TEST(Process, device_flags_hold_for_the_context_made_with_them) {
    const auto child = run_child("Process.DISABLED_flags");
    EXPECT_TRUE(child.passed()) << child.output;
}

TEST(Process, DISABLED_reset) {
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 1 << 20), cudaSuccess);
    // A second thread holds the same context over the reset.
    bool reset = false;
    std::thread([&] {
        ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
        std::thread([&] {
            EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
            reset = true;
        }).join();
        void* again = nullptr;
        EXPECT_EQ(cudaMalloc(&again, 4096), cudaSuccess);
        EXPECT_EQ(cudaMemset(again, 1, 4096), cudaSuccess);
        EXPECT_EQ(cudaFree(again), cudaSuccess);
    }).join();
    ASSERT_TRUE(reset);
    EXPECT_EQ(cudaFree(memory), cudaSuccess) << "the reset freed it already, which this thread has yet to see";
    EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
    cudaGetLastError();
    ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
    EXPECT_LT(before, after + (1u << 20)) << "a driver keeps some of its own";
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
        EXPECT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
    }
}

TEST(Process, a_reset_frees_everything_and_the_device_comes_back_in_every_thread) {
    const auto child = run_child("Process.DISABLED_reset");
    EXPECT_TRUE(child.passed()) << child.output;
}

TEST(Properties, agree_with_the_driver) {
    NEEDS_DEVICES(2);
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
    char name[256] = {};
    CUuuid uuid;
    size_t bytes = 0;
    int value = 0;
    ASSERT_EQ(cuDeviceGetName(name, sizeof name, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuDeviceGetUuid(&uuid, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuDeviceTotalMem(&bytes, 1), CUDA_SUCCESS);
    EXPECT_STREQ(properties.name, name);
    EXPECT_EQ(std::memcmp(&properties.uuid, &uuid, sizeof uuid), 0);
    EXPECT_EQ(properties.totalGlobalMem, bytes);
    ASSERT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1), CUDA_SUCCESS);
    EXPECT_EQ(properties.pciBusID, value);
    ASSERT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1), CUDA_SUCCESS);
    EXPECT_EQ(properties.multiProcessorCount, value);
    EXPECT_EQ(properties.warpSize, 32);
    EXPECT_EQ(properties.unifiedAddressing, 1);
    EXPECT_EQ(properties.maxThreadsDim[2], 64);
}

TEST(Device, is_found_by_its_pci_bus_id) {
    NEEDS_DEVICES(3);
    char text[32] = {};
    int device = -1;
    ASSERT_EQ(cudaDeviceGetPCIBusId(text, sizeof text, 2), cudaSuccess);
    EXPECT_EQ(cudaDeviceGetByPCIBusId(&device, text), cudaSuccess) << text;
    EXPECT_EQ(device, 2);
}

TEST(Version, of_the_runtime_is_the_headers_and_the_drivers_is_no_older) {
    int runtime = 0;
    int driver = 0;
    ASSERT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
    ASSERT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
    EXPECT_EQ(runtime / 1000, CUDART_VERSION / 1000);
    EXPECT_GE(driver, runtime);
}

TEST(EntryPoint, gives_the_drivers_function_and_tells_what_is_missing) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", &function, 12000, cudaEnableDefault, &status),
              cudaSuccess);
    EXPECT_EQ(status, cudaDriverEntryPointSuccess);
    int count = 0;
    int expected = 0;
    ASSERT_NE(function, nullptr);
    EXPECT_EQ(reinterpret_cast<CUresult (*)(int*)>(function)(&count), CUDA_SUCCESS);
    EXPECT_EQ(cudaGetDeviceCount(&expected), cudaSuccess);
    EXPECT_EQ(count, expected);
    EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 13000, cudaEnableDefault, &status),
              cudaSuccess);
    EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
    EXPECT_EQ(function, nullptr);
}
