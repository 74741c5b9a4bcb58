// Error names and texts, and what differs between the two libraries made of one source: the reference is the toolkit's
// own library where it is installed, and the layouts that its headers publish.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "../real.hpp"

namespace {

template <class Function>
Function symbol(void* library, const char* name) {
    auto* function = reinterpret_cast<Function>(dlsym(library, name));
    EXPECT_NE(function, nullptr) << dlerror();
    return function;
}

int at(const unsigned char* properties, size_t offset) {
    int value = 0;
    std::memcpy(&value, properties + offset, sizeof value);
    return value;
}

using TextOf = const char* (*)(cudaError_t);

}  // namespace

TEST(ErrorNames, are_those_that_programs_know) {
    EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered");
    EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST(ErrorNames, are_the_toolkits_for_every_code) {
    void* const real = dlopen("/usr/local/cuda/lib64/libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    if (real == nullptr)
        GTEST_SKIP() << "no CUDA toolkit's library to compare with";
    const auto name = symbol<TextOf>(real, "cudaGetErrorName");
    const auto text = symbol<TextOf>(real, "cudaGetErrorString");
    ASSERT_NE(name, &cudaGetErrorName);
    for (int code = 0; code < 11'000; ++code) {
        EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(code)), name(static_cast<cudaError_t>(code))) << code;
        EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(code)), text(static_cast<cudaError_t>(code))) << code;
    }
}

TEST(Library, under_its_bare_name_is_the_same_and_no_second_copy) {
    VIRTUAL_ONLY("library of their own under the bare name");
    void* const bare = dlopen("libcudart.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(bare, nullptr) << dlerror();
    EXPECT_EQ(symbol<TextOf>(bare, "cudaGetErrorName"), &cudaGetErrorName);
}

// By its path, for the toolkit's library may be there under the same name.
TEST(Library, has_no_symbol_for_what_it_does_not_do) {
    VIRTUAL_ONLY("lack of what the virtual runtime leaves out");
    for (const char* file : {LIBRARIES "/libcudart.so.12", LIBRARIES "/libcudart.so.13"}) {
        void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << dlerror();
        for (const char* name :
             {"cudaMallocArray", "cudaCreateTextureObject", "cudaImportExternalMemory", "cudaGetExportTable"})
            EXPECT_EQ(dlsym(library, name), nullptr) << file << ": " << name;
    }
}

// Offsets and sizes are those of CUDA 12.9's and 11.8's driver_types.h on a 64-bit machine.
class Cuda12 : public testing::Test {
  protected:
    void SetUp() override {
        VIRTUAL_ONLY("two versions of the runtime");
        library_ = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library_, nullptr) << dlerror();
    }
    void* library_ = nullptr;
    static constexpr size_t kMajor = 360, kProcessors = 388, kBus = 584, kLast11 = 728, kRegister = 728, kSize = 1032;
};

TEST_F(Cuda12, says_its_own_version) {
    int version = 0;
    EXPECT_EQ(symbol<cudaError_t (*)(int*)>(library_, "cudaRuntimeGetVersion")(&version), cudaSuccess);
    EXPECT_EQ(version / 1000, 12);
}

TEST_F(Cuda12, properties_have_the_layout_of_that_version) {
    cudaDeviceProp newer;
    ASSERT_EQ(cudaGetDeviceProperties(&newer, 0), cudaSuccess);
    std::vector<unsigned char> older(kSize + 8, 0xee);
    const auto get = symbol<cudaError_t (*)(void*, int)>(library_, "cudaGetDeviceProperties_v2");
    ASSERT_EQ(get(older.data(), 0), cudaSuccess);
    EXPECT_STREQ(reinterpret_cast<char*>(older.data()), newer.name);
    EXPECT_EQ(at(older.data(), kMajor), newer.major);
    EXPECT_EQ(at(older.data(), kProcessors), newer.multiProcessorCount);
    EXPECT_EQ(at(older.data(), kBus), newer.pciBusID);
    EXPECT_EQ(at(older.data(), kRegister), newer.hostRegisterSupported);
    EXPECT_EQ(at(older.data(), kSize - 4), 0);
    EXPECT_EQ(older[kSize], 0xee) << "written past the structure";
}

TEST_F(Cuda12, properties_under_the_bare_name_end_where_cuda_11s_end) {
    std::vector<unsigned char> oldest(kLast11 + 8, 0xee);
    const auto get = symbol<cudaError_t (*)(void*, int)>(library_, "cudaGetDeviceProperties");
    ASSERT_EQ(get(oldest.data(), 0), cudaSuccess);
    EXPECT_GT(at(oldest.data(), kMajor), 0);
    EXPECT_EQ(oldest[kLast11], 0xee) << "written past the structure";
}

TEST_F(Cuda12, pointer_attributes_end_where_that_versions_end) {
    unsigned char answer[32];
    std::memset(answer, 0xee, sizeof answer);
    const auto get = symbol<cudaError_t (*)(void*, const void*)>(library_, "cudaPointerGetAttributes");
    ASSERT_EQ(get(answer, answer), cudaSuccess);
    EXPECT_EQ(at(answer, 0), int{cudaMemoryTypeUnregistered});
    EXPECT_EQ(answer[24], 0xee) << "written past the structure";
}

TEST_F(Cuda12, prefetch_and_advice_name_a_device_by_its_number) {
    const auto allocate = symbol<cudaError_t (*)(void**, size_t, unsigned)>(library_, "cudaMallocManaged");
    const auto prefetch =
        symbol<cudaError_t (*)(const void*, size_t, int, cudaStream_t)>(library_, "cudaMemPrefetchAsync");
    const auto advise = symbol<cudaError_t (*)(const void*, size_t, int, int)>(library_, "cudaMemAdvise");
    void* memory = nullptr;
    ASSERT_EQ(allocate(&memory, 1 << 16, cudaMemAttachGlobal), cudaSuccess);
    EXPECT_EQ(prefetch(memory, 1 << 16, 0, nullptr), cudaSuccess);
    EXPECT_EQ(prefetch(memory, 1 << 16, cudaCpuDeviceId, nullptr), cudaSuccess);
    EXPECT_EQ(prefetch(memory, 1 << 16, 99, nullptr), cudaErrorInvalidDevice);
    EXPECT_EQ(advise(memory, 1 << 16, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Cuda12, capture_info_comes_in_every_form_that_version_has) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    using Short = cudaError_t (*)(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*);
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    for (const char* name :
         {"cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v3"}) {
        status = cudaStreamCaptureStatusActive;
        EXPECT_EQ(symbol<Short>(library_, name)(nullptr, &status, nullptr), cudaSuccess) << name;
        EXPECT_EQ(status, cudaStreamCaptureStatusNone) << name;
    }
}
