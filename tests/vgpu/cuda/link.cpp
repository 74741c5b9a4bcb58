// The driver's linker, cuLink*: the expected answers are what cuda.h says of each call; what a driver does where a
// symbol is missing is not documented, and is asked of virtual GPUs alone.
#include <cstdio>
#include <string>

#include <unistd.h>

#include "fixture.hpp"

namespace {

const std::string kHead = ".version 7.0\n.target sm_75\n.address_size 64\n";
const std::string kCaller = kHead + R"(.extern .func (.param .b32 result) twice(.param .b32 x);
.visible .entry kernel(.param .u64 out) {
    .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, 21;
    { .param .b32 x; .param .b32 result;
      st.param.b32 [x], %r1;
      call.uni (result), twice, (x);
      ld.param.b32 %r2, [result]; }
    st.global.u32 [%rd1], %r2;
    ret;
})";
const std::string kCallee = kHead + R"(.visible .func (.param .b32 result) twice(.param .b32 x) {
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
})";

class Link : public vgpu::test::WithContext {
  protected:
    void SetUp() override {
        WithContext::SetUp();
        ASSERT_EQ(cuLinkCreate(5, options, values, &state), CUDA_SUCCESS);
    }
    void TearDown() override {
        if (state != nullptr) {
            EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
        }
        WithContext::TearDown();
    }
    CUresult add(const std::string& bytes, const char* name, CUjitInputType type = CU_JIT_INPUT_PTX) {
        return cuLinkAddData(state, type, const_cast<char*>(bytes.data()), bytes.size() + (type == CU_JIT_INPUT_PTX),
                             name, 0, nullptr, nullptr);
    }
    std::string complete() {
        void* cubin = nullptr;
        std::size_t bytes = 0;
        EXPECT_EQ(cuLinkComplete(state, &cubin, &bytes), CUDA_SUCCESS);
        return {static_cast<const char*>(cubin), bytes};
    }
    int result_of(const std::string& cubin) {
        CUmodule module = nullptr;
        CUfunction kernel = nullptr;
        EXPECT_EQ(cuModuleLoadData(&module, cubin.data()), CUDA_SUCCESS);
        EXPECT_EQ(cuModuleGetFunction(&kernel, module, "kernel"), CUDA_SUCCESS);
        CUdeviceptr out = allocate(4);
        void* arguments[] = {&out};
        EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
        EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
        EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
        return read<int>(out, 1)[0];
    }
    std::string log() const { return errors; }

    CUlinkState state = nullptr;
    char errors[512] = "not written", information[64] = "not written";
    CUjit_option options[5] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                               CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_TARGET_FROM_CUCONTEXT};
    void* values[5] = {errors, reinterpret_cast<void*>(sizeof errors), information,
                       reinterpret_cast<void*>(sizeof information), nullptr};
};

TEST_F(Link, Joins_two_texts_into_a_cubin_that_is_a_copy_away) {
    ASSERT_EQ(add(kCaller, "caller"), CUDA_SUCCESS);
    ASSERT_EQ(add(kCallee, "callee"), CUDA_SUCCESS);
    const std::string cubin = complete();
    EXPECT_EQ(log(), "");
    ASSERT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
    state = nullptr;
    EXPECT_EQ(result_of(cubin), 42);
}

TEST_F(Link, Takes_files_and_cubins_that_it_made_itself) {
    char path[] = "/tmp/switchyard-link-XXXXXX";
    const int file = mkstemp(path);
    ASSERT_EQ(write(file, kCallee.data(), kCallee.size()), static_cast<ssize_t>(kCallee.size()));
    close(file);
    EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr), CUDA_SUCCESS);
    unlink(path);
    EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr), CUDA_ERROR_FILE_NOT_FOUND);
    const std::string library = complete();

    VIRTUAL_ONLY("what is left of a function that no kernel calls");
    CUlinkState second = nullptr;
    ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &second), CUDA_SUCCESS);
    std::swap(state, second);
    EXPECT_EQ(add(kCaller, "caller"), CUDA_SUCCESS);
    EXPECT_EQ(add(library, "library", CU_JIT_INPUT_CUBIN), CUDA_SUCCESS);
    EXPECT_EQ(result_of(complete()), 42);
    EXPECT_EQ(cuLinkDestroy(second), CUDA_SUCCESS);
}

TEST_F(Link, Names_a_symbol_that_no_input_defines) {
    VIRTUAL_ONLY("the error of a symbol that is missing");
    ASSERT_EQ(add(kCaller, "caller"), CUDA_SUCCESS);
    void* cubin = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(cuLinkComplete(state, &cubin, &bytes), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_NE(log().find("twice"), std::string::npos) << log();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values[1]), log().size());
    EXPECT_STREQ(information, "");
}

TEST_F(Link, Refuses_what_it_cannot_read_and_says_which_input) {
    EXPECT_EQ(add(kHead + ".visible .entry kernel( {", "broken"), CUDA_ERROR_INVALID_PTX);
    EXPECT_NE(log().find("line 4"), std::string::npos) << log();
    VIRTUAL_ONLY("the errors of bytes of another kind");
    EXPECT_NE(log().find("broken"), std::string::npos) << log();
    EXPECT_EQ(add("no device code at all", "text"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(add(kCallee, "ptx", CU_JIT_INPUT_CUBIN), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(add(kCallee, "ptx", CU_JIT_INPUT_FATBINARY), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(add(kCallee, "nvvm", static_cast<CUjitInputType>(5)), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(Link, Refuses_arguments_that_mean_nothing) {
    CUlinkState made = nullptr;
    EXPECT_EQ(cuLinkCreate(0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLinkCreate(1, nullptr, nullptr, &made), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(add("", "empty"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(cuLinkAddData(state, CU_JIT_INPUT_PTX, nullptr, 4, "null", 0, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    VIRTUAL_ONLY("handles that are stale");
    const CUlinkState gone = state;
    ASSERT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
    EXPECT_EQ(cuLinkDestroy(gone), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(add(kCallee, "late"), CUDA_ERROR_INVALID_HANDLE);
    state = nullptr;
}

}  // namespace
