// A current primary context on device 0, and what most tests of the driver need.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "../real.hpp"
#include "vgpu/newer_cuda.h"

namespace vgpu::test {

// A host function that holds its stream up until it is opened.
struct Gate {
    std::atomic<bool> open{false};
    std::atomic<bool> entered{false};
    static void CUDA_CB wait(void* gate) {
        auto* const self = static_cast<Gate*>(gate);
        self->entered = true;
        while (!self->open)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    void close_on(CUstream stream) { ASSERT_EQ(cuLaunchHostFunc(stream, wait, this), CUDA_SUCCESS); }
    void await() const {
        while (!entered)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
};

class WithContext : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
        ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    }
    void TearDown() override {
        if (context != nullptr) {
            EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
        }
    }

    CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr pointer = 0;
        EXPECT_EQ(cuMemAlloc(&pointer, bytes), CUDA_SUCCESS);
        return pointer;
    }
    CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
        CUstream created = nullptr;
        EXPECT_EQ(cuStreamCreate(&created, flags), CUDA_SUCCESS);
        return created;
    }
    CUevent event(unsigned flags = CU_EVENT_DEFAULT) {
        CUevent created = nullptr;
        EXPECT_EQ(cuEventCreate(&created, flags), CUDA_SUCCESS);
        return created;
    }
    template <typename Value>
    std::vector<Value> read(CUdeviceptr pointer, std::size_t count) {
        std::vector<Value> values(count);
        EXPECT_EQ(cuMemcpyDtoH(values.data(), pointer, count * sizeof(Value)), CUDA_SUCCESS);
        return values;
    }
    static std::vector<int> numbers(std::size_t count, int first = 0) {
        std::vector<int> values(count);
        std::iota(values.begin(), values.end(), first);
        return values;
    }

    CUcontext context = nullptr;
};

}  // namespace vgpu::test
