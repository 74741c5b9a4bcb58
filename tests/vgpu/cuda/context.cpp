// Contexts: primary ones, made ones, the current one.
#include "fixture.hpp"

class Context : public vgpu::test::WithContext {};

TEST_F(Context, Without_a_current_context_calls_that_need_one_say_so) {
    std::thread([] {
        CUdeviceptr pointer = 0;
        CUcontext current = reinterpret_cast<CUcontext>(1);
        CUstream stream = nullptr;
        CUdevice device = 0;
        EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
        EXPECT_EQ(current, nullptr);
        EXPECT_EQ(cuMemAlloc(&pointer, 16), CUDA_ERROR_INVALID_CONTEXT);
        EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
        EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
        EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
        EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_ERROR_INVALID_CONTEXT);
    }).join();
}

TEST_F(Context, The_primary_context_is_one_for_all_who_retain_it_and_ends_with_the_last_release) {
    NEEDS_DEVICES(2);
    unsigned flags = 9;
    int active = 9;
    CUcontext first = nullptr;
    CUcontext second = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, 0);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&first, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
    EXPECT_EQ(first, second);
    ASSERT_EQ(cuCtxPushCurrent(first), CUDA_SUCCESS);
    const CUdeviceptr pointer = allocate(64);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8(pointer, 0, 64), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, 0);
    EXPECT_EQ(cuMemsetD8(pointer, 0, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(cuCtxPopCurrent(&second), CUDA_SUCCESS);
    unsigned type = 0;
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Context, Made_contexts_stack_and_die_with_what_they_own) {
    NEEDS_DEVICES(3);
    CUcontext made = nullptr;
    ASSERT_EQ(cuCtxCreate_v4(&made, nullptr, 0, 2), CUDA_SUCCESS);
    CUcontext current = nullptr;
    CUdevice device = -1;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, made);
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
    EXPECT_EQ(device, 2);
    const CUdeviceptr pointer = allocate(64);
    const CUstream created = stream();
    EXPECT_EQ(cuCtxDestroy(made), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, context);
    EXPECT_EQ(cuCtxDestroy(made), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSetCurrent(made), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamSynchronize(created), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);  // a primary context is released, not destroyed
}

TEST_F(Context, Setting_no_context_pops_the_current_one) {
    CUcontext current = nullptr;
    ASSERT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, context);
    ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
}

TEST_F(Context, Limits_are_kept_and_unknown_ones_refused) {
    std::size_t value = 0;
    EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
    EXPECT_EQ(value, 4096u);
    EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH), CUDA_ERROR_UNSUPPORTED_LIMIT);
    int least = 9;
    int greatest = 9;
    EXPECT_EQ(cuCtxGetStreamPriorityRange(&least, &greatest), CUDA_SUCCESS);
    EXPECT_EQ(least, 0);
    EXPECT_LT(greatest, least);
}
