// The names that libcuda exports, and those that cuGetProcAddress finds.
#include <dlfcn.h>

#include <cstring>
#include <map>
#include <string>

#include "fixture.hpp"

namespace {

void* exported(const char* symbol) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return dlsym(library, symbol);
}

void* found(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
    void* address = &address;
    CUdriverProcAddressQueryResult status{};
    EXPECT_EQ(cuGetProcAddress(name, &address, version, flags, &status), CUDA_SUCCESS);
    EXPECT_EQ(status == CU_GET_PROC_ADDRESS_SUCCESS, address != nullptr);
    return address;
}

}  // namespace

class Names : public testing::Test {};

TEST_F(Names, A_program_gets_the_form_that_its_cuda_version_knew) {
    EXPECT_EQ(found("cuMemAlloc", 13000), exported("cuMemAlloc_v2"));
    EXPECT_EQ(found("cuCtxCreate", 11000), exported("cuCtxCreate_v2"));
    EXPECT_EQ(found("cuCtxCreate", 12000), exported("cuCtxCreate_v3"));
    EXPECT_EQ(found("cuCtxCreate", 12050), exported("cuCtxCreate_v4"));
    EXPECT_EQ(found("cuMemPrefetchAsync", 12010), exported("cuMemPrefetchAsync"));
    EXPECT_EQ(found("cuMemPrefetchAsync", 12020), exported("cuMemPrefetchAsync_v2"));
    EXPECT_EQ(found("cuGetProcAddress", 11030), exported("cuGetProcAddress"));
    EXPECT_EQ(found("cuGetProcAddress", 12000), exported("cuGetProcAddress_v2"));
    constexpr auto kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    EXPECT_EQ(found("cuMemcpyHtoD", 13000, kPerThread), exported("cuMemcpyHtoD_v2_ptds"));
    EXPECT_EQ(found("cuMemcpyHtoD", 6000, kPerThread), nullptr);  // not the one of the legacy stream
    EXPECT_EQ(found("cuLaunchHostFunc", 13000, kPerThread), exported("cuLaunchHostFunc_ptsz"));
    EXPECT_EQ(found("cuLaunchHostFunc", 13000), exported("cuLaunchHostFunc"));
    EXPECT_EQ(found("cuMemAlloc", 13000, kPerThread), exported("cuMemAlloc_v2"));
}

TEST_F(Names, What_is_not_there_is_not_found_and_says_why) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status{};
    std::vector<const char*> names = {"cuNoSuchFunction", "cuMemAlloc_v2", ""};
    if (!vgpu::test::on_real_gpus())
        names.insert(names.end(), {"cuGraphAddKernelNode", "cuTexObjectCreate"});
    for (const char* name : names) {
        address = &address;
        EXPECT_EQ(cuGetProcAddress(name, &address, 13000, 0, &status), CUDA_SUCCESS) << name;
        EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) << name;
        EXPECT_EQ(address, nullptr) << name;
    }
    EXPECT_EQ(cuGetProcAddress("cuMemAllocAsync", &address, 11000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &address, 13000, 9, &status), CUDA_ERROR_INVALID_VALUE);
    if (!vgpu::test::on_real_gpus()) {  // driver 580 dies of it
        EXPECT_EQ(cuGetProcAddress("cuMemAlloc", nullptr, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
    }
}

TEST_F(Names, Every_row_of_the_table_is_exported_under_its_symbol) {
    VIRTUAL_ONLY("table of the virtual driver");
    const std::map<std::string, int> rows = {
#define VGPU_FUNCTION(name, version, symbol) {#symbol, version},
#define VGPU_FUNCTION_PER_THREAD(name, version, symbol, per_thread_version, per_thread_symbol) \
    {#symbol, version}, {#per_thread_symbol, per_thread_version},
#include "vgpu/cuda/functions.def"
#undef VGPU_FUNCTION
#undef VGPU_FUNCTION_PER_THREAD
    };
    for (const auto& [symbol, version] : rows)
        EXPECT_NE(exported(symbol.c_str()), nullptr) << symbol;
    EXPECT_GT(rows.size(), 250u);
}
