// Kernels: their CPU twins, their arguments, and the memory that a kernel may access.
#include <cstring>

#include "fixture.hpp"

using vgpu::test::Gate;

class Kernel : public vgpu::test::WithContext {
  protected:
    void SetUp() override {
        VIRTUAL_ONLY("twins of kernels");
        WithContext::SetUp();
        ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
    }
    CUfunction function(const char* name) {
        CUfunction found = nullptr;
        EXPECT_EQ(cuModuleGetFunction(&found, module, name), CUDA_SUCCESS);
        return found;
    }
    static constexpr const char* kPtx =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry scale(...)\n.visible .entry describe(...)\n"
        ".visible .entry increment(...)\n.visible .entry twinless(...)\n";
    CUmodule module = nullptr;
};

TEST_F(Kernel, A_launch_runs_the_twin_asynchronously_with_the_arguments_it_was_given) {
    const CUdeviceptr x = allocate(400);
    std::vector<float> values(100, 3.f);
    ASSERT_EQ(cuMemcpyHtoD(x, values.data(), 400), CUDA_SUCCESS);
    const CUstream work = stream(CU_STREAM_DEFAULT);
    ASSERT_EQ(cuFuncLoad(function("scale")), CUDA_SUCCESS);
    Gate gate;
    gate.close_on(work);
    {
        CUdeviceptr pointer = x;
        float factor = 2.f;
        int n = 99;
        void* arguments[] = {&pointer, &factor, &n};
        ASSERT_EQ(cuLaunchKernel(function("scale"), 4, 1, 1, 32, 1, 1, 0, work, arguments, nullptr), CUDA_SUCCESS);
        pointer = 0;  // the arguments are the caller's again
        factor = 0.f;
        n = 0;
    }
    gate.open = true;
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    std::fill(values.begin(), values.end() - 1, 6.f);
    EXPECT_EQ(read<float>(x, 100), values);
}

TEST_F(Kernel, Memory_that_is_freed_behind_a_kernel_in_its_stream_is_there_until_then) {
    const CUdeviceptr result = allocate(8);
    const CUstream work = stream(CU_STREAM_DEFAULT);
    CUdeviceptr x = 0;
    ASSERT_EQ(cuMemAllocAsync(&x, 8, work), CUDA_SUCCESS);
    const float values[] = {1.f, 2.f};
    ASSERT_EQ(cuMemcpyHtoDAsync(x, values, 8, work), CUDA_SUCCESS);
    ASSERT_EQ(cuFuncLoad(function("scale")), CUDA_SUCCESS);
    Gate gate;
    gate.close_on(work);
    float factor = 3.f;
    int n = 2;
    void* arguments[] = {&x, &factor, &n};
    ASSERT_EQ(cuLaunchKernel(function("scale"), 1, 1, 1, 1, 1, 1, 0, work, arguments, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoDAsync(result, x, 8, work), CUDA_SUCCESS);
    ASSERT_EQ(cuMemFreeAsync(x, work), CUDA_SUCCESS);
    gate.open = true;
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    EXPECT_EQ(read<float>(result, 2), (std::vector<float>{3.f, 6.f}));
}

// Of all the calls that drivers make lazily, these wait, for work of every stream (driver 580).
TEST_F(Kernel, Loading_and_unloading_a_module_and_the_first_launch_of_a_function_wait_for_everything) {
    CUmodule other = nullptr;
    CUfunction first = nullptr;
    CUdeviceptr word = allocate(4);
    void* arguments[] = {&word};
    const CUstream held = stream(), work = stream();
    const auto launch = [&] { return cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, work, arguments, nullptr); };
    const auto waits = [&](const auto& call) {
        Gate gate;
        gate.close_on(held);
        gate.await();
        std::thread opener([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            gate.open = true;
        });
        EXPECT_EQ(call(), CUDA_SUCCESS);
        const bool waited = gate.open;
        opener.join();
        EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
        return waited;
    };
    EXPECT_TRUE(waits([&] { return cuModuleLoadData(&other, kPtx); }));
    ASSERT_EQ(cuModuleGetFunction(&first, other, "increment"), CUDA_SUCCESS);
    EXPECT_TRUE(waits(launch));
    EXPECT_FALSE(waits(launch));
    ASSERT_EQ(cuModuleGetFunction(&first, other, "scale"), CUDA_SUCCESS);
    EXPECT_TRUE(waits([&] { return cuFuncLoad(first); }));
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
    EXPECT_EQ(cuFuncIsLoaded(&state, first), CUDA_SUCCESS);
    EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);
    EXPECT_FALSE(waits([&] { return cuFuncLoad(first); }));
    int threads = 0;
    ASSERT_EQ(cuModuleGetFunction(&first, other, "describe"), CUDA_SUCCESS);
    EXPECT_TRUE(waits([&] { return cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, first); }));
    EXPECT_FALSE(waits([&] { return cuFuncLoad(first); }));
    EXPECT_TRUE(waits([&] { return cuModuleUnload(other); }));
}

TEST_F(Kernel, Packed_arguments_mean_the_same) {
    const CUdeviceptr x = allocate(8);
    const float values[] = {1.f, 2.f};
    ASSERT_EQ(cuMemcpyHtoD(x, values, 8), CUDA_SUCCESS);
    struct {
        CUdeviceptr pointer;
        float factor;
        int n;
    } packed{x, 5.f, 2};
    std::size_t size = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    ASSERT_EQ(cuLaunchKernel(function("scale"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
    EXPECT_EQ(read<float>(x, 2), (std::vector<float>{5.f, 10.f}));
    std::size_t offset = 0;
    EXPECT_EQ(cuFuncGetParamInfo(function("scale"), 2, &offset, &size), CUDA_SUCCESS);
    EXPECT_EQ(offset, 12u);
    EXPECT_EQ(size, 4u);
    EXPECT_EQ(cuFuncGetParamInfo(function("scale"), 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Kernel, The_twin_learns_the_shape_and_reaches_a_peer_only_with_access) {
    CUcontext other = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
    CUdeviceptr there = allocate(4);
    ASSERT_EQ(cuCtxPopCurrent(&other), CUDA_SUCCESS);
    CUdeviceptr out = allocate(36);
    void* arguments[] = {&out, &there};
    const auto describe = [&] {
        EXPECT_EQ(cuLaunchKernel(function("describe"), 7, 6, 5, 4, 3, 2, 100, nullptr, arguments, nullptr),
                  CUDA_SUCCESS);
        return read<unsigned>(out, 9);
    };
    EXPECT_EQ(describe(), (std::vector<unsigned>{7, 6, 5, 4, 3, 2, 100, 0, 0}));
    ASSERT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_SUCCESS);
    EXPECT_EQ(describe().back(), 1u);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Kernel, A_twin_without_sizes_is_waited_for) {
    CUdeviceptr word = allocate(4);
    ASSERT_EQ(cuMemsetD32(word, 41, 1), CUDA_SUCCESS);
    void* arguments[] = {&word};
    ASSERT_EQ(cuLaunchKernel(function("increment"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(word, 1)[0], 42);
}

TEST_F(Kernel, Without_a_twin_or_with_a_bad_shape_nothing_is_launched) {
    void* none[] = {nullptr};
    EXPECT_EQ(cuLaunchKernel(function("twinless"), 1, 1, 1, 1, 1, 1, 0, nullptr, none, nullptr),
              CUDA_ERROR_NO_BINARY_FOR_GPU);
    EXPECT_EQ(cuLaunchKernel(function("scale"), 0, 1, 1, 1, 1, 1, 0, nullptr, none, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(function("scale"), 1, 1, 1, 1025, 1, 1, 0, nullptr, none, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(function("scale"), 1, 1, 1, 1, 1, 1, 50000, nullptr, none, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    CUfunction absent = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&absent, module, "absent"), CUDA_ERROR_NOT_FOUND);
    CUmodule bad = nullptr;
    EXPECT_EQ(cuModuleLoadData(&bad, "this is no device code"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(cuModuleLoad(&bad, "/nowhere.cubin"), CUDA_ERROR_FILE_NOT_FOUND);
    const CUfunction stale = function("scale");
    ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
    EXPECT_EQ(cuLaunchKernel(stale, 1, 1, 1, 1, 1, 1, 0, nullptr, none, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}

// NCCL passes as much of its kernels' structure of 4 KiB as they read.
TEST_F(Kernel, A_packed_structure_may_be_cut_short_and_a_parameter_may_not_be_left_out) {
    constexpr const char* kReads =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry reads(.param .u64 p, .param .align 8 .b8 "
        "s[4096])\n"
        "{\n.reg .b64 %rd<3>;\nld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [s+8];\nst.global.u64 [%rd1], "
        "%rd2;\nret;\n}\n";
    CUmodule code = nullptr;
    CUfunction reads = nullptr;
    ASSERT_EQ(cuModuleLoadData(&code, kReads), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&reads, code, "reads"), CUDA_SUCCESS);
    const CUdeviceptr to = allocate(8);
    std::uint64_t packed[3] = {to, 1, 77};
    std::size_t size = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    ASSERT_EQ(cuLaunchKernel(reads, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
    EXPECT_EQ(read<std::uint64_t>(to, 1)[0], 77u);
    size = 8;
    EXPECT_EQ(cuLaunchKernel(reads, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuModuleUnload(code), CUDA_SUCCESS);
}

TEST_F(Kernel, Blocks_of_a_cluster_know_their_place_in_it) {
    constexpr const char* kRanks =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry ranks(.param .u64 p)\n"
        "{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\n"
        "mov.u32 %r2, %cluster_ctarank;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\n"
        "st.global.u32 [%rd3], %r2;\nret;\n}\n";
    CUmodule code = nullptr;
    CUfunction ranks = nullptr;
    ASSERT_EQ(cuModuleLoadData(&code, kRanks), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&ranks, code, "ranks"), CUDA_SUCCESS);
    CUdeviceptr to = allocate(8 * 4);
    void* arguments[] = {&to};
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    CUlaunchConfig config{};
    config.gridDimX = 8;
    config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
    const auto launch = [&](unsigned size) {
        cluster.value.clusterDim = {size, 1, 1};
        return cuLaunchKernelEx(&config, ranks, arguments, nullptr);
    };
    ASSERT_EQ(launch(4), CUDA_SUCCESS);
    EXPECT_EQ(read<unsigned>(to, 8), (std::vector<unsigned>{0, 1, 2, 3, 0, 1, 2, 3}));
    EXPECT_EQ(launch(3), CUDA_ERROR_INVALID_CLUSTER_SIZE) << "8 blocks are no clusters of 3";
    config.gridDimX = 16;
    EXPECT_EQ(launch(16), CUDA_ERROR_INVALID_CLUSTER_SIZE) << "more than 8 blocks are not portable";
    EXPECT_EQ(cuModuleUnload(code), CUDA_SUCCESS);
}

TEST_F(Kernel, Libraries_hold_kernels_for_every_context) {
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction found = nullptr;
    ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "increment"), CUDA_SUCCESS);
    ASSERT_EQ(cuKernelGetFunction(&found, kernel), CUDA_SUCCESS);
    CUdeviceptr word = allocate(4);
    ASSERT_EQ(cuMemsetD32(word, 1, 1), CUDA_SUCCESS);
    void* arguments[] = {&word};
    EXPECT_EQ(cuLaunchKernel(found, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(read<int>(word, 1)[0], 2);
    const char* name = nullptr;
    EXPECT_EQ(cuFuncGetName(&name, found), CUDA_SUCCESS);
    EXPECT_STREQ(name, "increment");
    EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}
