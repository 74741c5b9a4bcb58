// Injected faults, and the operation log.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "fixture.hpp"
#include "process.hpp"
#include "vgpu/private.h"

using vgpu::test::run;

namespace {

struct Row {
    const char* name;
    const char* symbol;
};

#define VGPU_FUNCTION(name, version, symbol) {#name, #symbol},
#define VGPU_FUNCTION_PER_THREAD(name, version, symbol, per_thread_version, per_thread_symbol) \
    {#name, #symbol}, {#name, #per_thread_symbol},
const Row kRows[] = {
#include "vgpu/cuda/functions.def"
};
#undef VGPU_FUNCTION
#undef VGPU_FUNCTION_PER_THREAD

}  // namespace

class Fault : public vgpu::test::WithContext {
  protected:
    void SetUp() override {
        VIRTUAL_ONLY("VGPU_FAULTS and VGPU_LOG");
        WithContext::SetUp();
    }
};
class FaultChild : public vgpu::test::WithContext {};
class FaultBare : public testing::Test {};

TEST_F(FaultBare, DISABLED_calls_everything) {
    using Function =
        CUresult (*)(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    for (const Row& row : kRows) {
        const auto function = reinterpret_cast<Function>(dlsym(library, row.symbol));
        ASSERT_NE(function, nullptr) << row.symbol;
        EXPECT_EQ(function(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                           nullptr, nullptr, nullptr),
                  CUDA_ERROR_MPS_RPC_FAILURE)
            << row.symbol;
    }
}

TEST_F(Fault, Every_function_of_the_table_can_be_made_to_fail) {
    std::set<std::string> names;
    std::string faults;
    for (const Row& row : kRows)
        if (names.insert(row.name).second)
            faults += std::string(row.name) + "=CUDA_ERROR_MPS_RPC_FAILURE;";
    const auto ended = run("FaultBare.DISABLED_calls_everything", {{"VGPU_FAULTS", faults}});
    EXPECT_TRUE(ended.passed()) << ended.output;
}

TEST_F(FaultBare, DISABLED_init_fails) {
    EXPECT_EQ(cuInit(0), CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
}

TEST_F(Fault, A_driver_that_fails_to_initialise_can_be_simulated) {
    const auto ended =
        run("FaultBare.DISABLED_init_fails", {{"VGPU_FAULTS", "cuInit@1=CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}});
    EXPECT_TRUE(ended.passed()) << ended.output;
}

TEST_F(FaultChild, DISABLED_allocates) {
    std::string results;
    CUdeviceptr pointer = 0;
    for (int i = 0; i < 6; ++i)
        results += cuMemAlloc(&pointer, 16) == CUDA_SUCCESS ? '.' : 'x';
    printf("results %s\n", results.c_str());
}

TEST_F(Fault, Calls_and_ranks_are_selected_as_written) {
    const struct {
        vgpu::test::Environment environment;
        const char* expected;
    } cases[] = {
        {{{"VGPU_FAULTS", "cuMemAlloc@3=CUDA_ERROR_OUT_OF_MEMORY"}}, "..x..."},
        {{{"VGPU_FAULTS", "cuMemAlloc_v2@3-4=CUDA_ERROR_OUT_OF_MEMORY"}}, "..xx.."},
        {{{"VGPU_FAULTS", "cuMemAlloc@4+=CUDA_ERROR_OUT_OF_MEMORY"}}, "...xxx"},
        {{{"VGPU_FAULTS", "cuMemAlloc=CUDA_ERROR_OUT_OF_MEMORY"}}, "xxxxxx"},
        {{{"VGPU_FAULTS", "cuMemAlloc@1=CUDA_ERROR_OUT_OF_MEMORY;cuMemAlloc@6=CUDA_ERROR_UNKNOWN"}}, "x....x"},
        {{{"VGPU_FAULTS", "cuMemAlloc[2]@1=CUDA_ERROR_OUT_OF_MEMORY"}, {"OMPI_COMM_WORLD_RANK", "2"}}, "x....."},
        {{{"VGPU_FAULTS", "cuMemAlloc[2]@1=CUDA_ERROR_OUT_OF_MEMORY"}, {"OMPI_COMM_WORLD_RANK", "1"}}, "......"},
    };
    for (const auto& one : cases) {
        const auto ended = run("FaultChild.DISABLED_allocates", one.environment);
        EXPECT_NE(ended.output.find(std::string("results ") + one.expected + "\n"), std::string::npos)
            << one.environment.begin()->second << " " << one.expected << "\n"
            << ended.output;
    }
}

TEST_F(FaultChild, DISABLED_hangs_in_a_stream) {
    const CUstream held = stream();
    const CUstream free = stream();
    const CUdeviceptr pointer = allocate(64);
    ASSERT_EQ(cuMemsetD8Async(pointer, 1, 64, held), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8Async(pointer, 2, 64, free), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(free), CUDA_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
    puts(HasFailure() ? "failed" : "as expected");
    fflush(stdout);
    exit(0);
}

TEST_F(Fault, A_hanging_operation_is_accepted_and_never_completes) {
    const auto ended = run("FaultChild.DISABLED_hangs_in_a_stream", {{"VGPU_FAULTS", "cuMemsetD8Async@1=hang"}});
    EXPECT_NE(ended.output.find("as expected"), std::string::npos) << ended.output;
    EXPECT_TRUE(ended.passed()) << ended.output;
}

TEST_F(Fault, A_hanging_question_never_answers) {
    vgpu::test::Process child("FaultChild.DISABLED_allocates", {{"VGPU_FAULTS", "cuMemAlloc@2=hang"}});
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    child.kill(SIGKILL);
    child.finish();
    EXPECT_EQ(child.output.find("results"), std::string::npos);
    EXPECT_TRUE(WIFSIGNALED(child.status));
}

TEST_F(Fault, A_dying_process_dies_of_SIGKILL_in_that_call) {
    EXPECT_TRUE(run("FaultChild.DISABLED_allocates", {{"VGPU_FAULTS", "cuMemAlloc@5=die"}}).killed_by(SIGKILL));
    EXPECT_TRUE(run("FaultChild.DISABLED_allocates", {{"VGPU_FAULTS", "cuMemAlloc@7=die"}}).passed());
}

TEST_F(Fault, A_stopped_process_goes_on_after_five_seconds) {
    const auto began = std::chrono::steady_clock::now();
    const auto ended = run("FaultChild.DISABLED_allocates", {{"VGPU_FAULTS", "cuMemAlloc@2=stop"}});
    EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(4900));
    EXPECT_NE(ended.output.find("results ......\n"), std::string::npos) << ended.output;
    EXPECT_TRUE(ended.passed()) << ended.output;
}

TEST_F(FaultChild, DISABLED_asks_for_siblings) {
    const char* name = nullptr;
    EXPECT_EQ(vgpu_fault("ncclAllReduce", &name), kVgpuFaultNone);
    EXPECT_EQ(vgpu_fault("ncclAllReduce", &name), kVgpuFaultError);
    EXPECT_STREQ(name, "ncclRemoteError");
    EXPECT_EQ(vgpu_fault("ncclSend", &name), kVgpuFaultHang);
}

TEST_F(Fault, The_same_mechanism_serves_the_runtime_and_nccl) {
    const auto ended = run("FaultChild.DISABLED_asks_for_siblings",
                           {{"VGPU_FAULTS", "ncclAllReduce@2=ncclRemoteError;ncclSend=hang"}});
    EXPECT_TRUE(ended.passed()) << ended.output;
}

TEST_F(FaultChild, DISABLED_does_a_few_things) {
    std::vector<int> host(100);
    const CUdeviceptr pointer = allocate(400);
    const CUstream work = stream();
    ASSERT_EQ(cuMemcpyHtoDAsync(pointer, host.data(), 400, work), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(work), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoH(host.data(), pointer, 300), CUDA_SUCCESS);
    ASSERT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
}

TEST_F(Fault, The_log_has_a_json_line_for_each_phase_of_each_operation) {
    char folder[] = "/tmp/vgpu-log-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const auto ended = run("FaultChild.DISABLED_does_a_few_things", {{"VGPU_LOG", std::string(folder) + "/log"}});
    EXPECT_TRUE(ended.passed()) << ended.output;
    std::string text;
    int files = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        ++files;
        EXPECT_EQ(file.path().filename().string().rfind("log.", 0), 0u);
        std::ifstream stream(file.path());
        text.append(std::istreambuf_iterator<char>(stream), {});
    }
    std::filesystem::remove_all(folder);
    EXPECT_EQ(files, 1);
    const auto count = [&](const std::string& part) {
        int found = 0;
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
            ++found;
        return found;
    };
    EXPECT_EQ(count("\"op\": \"cuMemAlloc\", \"phase\": \"launch\", \"bytes\": 400"), 1) << text;
    EXPECT_EQ(count("\"op\": \"cuMemFree\""), 1) << text;
    EXPECT_EQ(count("\"op\": \"cuStreamSynchronize\""), 1) << text;
    for (const char* phase : {"launch", "start", "end"}) {
        const std::string head = "\", \"phase\": \"" + std::string(phase) + "\", ";
        EXPECT_EQ(count("\"cuMemcpyHtoDAsync" + head + "\"bytes\": 400, \"kind\": \"HtoD\", \"host\": \"pageable\""), 1)
            << text;
        EXPECT_EQ(count("\"cuMemcpyDtoH" + head + "\"bytes\": 300, \"kind\": \"DtoH\", \"host\": \"pageable\""), 1)
            << text;
    }
}
