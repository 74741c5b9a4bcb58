// A program that links device code by nvJitLink and loads the cubin that comes of it; nvjitlink.test gives it objects
// and libraries that nvcc has compiled. Usage: client KIND FILE... for each input, then "run", which prints what the
// kernel writes, or "fail", which prints what is said of it.
#include <cuda.h>
#include <nvJitLink.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

int failed(const char* what, int status, nvJitLinkHandle handle) {
    std::size_t bytes = 0;
    std::vector<char> log(1);
    if (handle != nullptr && nvJitLinkGetErrorLogSize(handle, &bytes) == NVJITLINK_SUCCESS) {
        log.resize(bytes + 1);
        nvJitLinkGetErrorLog(handle, log.data());
    }
    std::printf("%s: %d\n%s", what, status, log.data());
    return 1;
}

int run(const std::vector<char>& cubin) {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction kernel = nullptr;
    CUdeviceptr out = 0;
    int value = 0;
    void* arguments[] = {&out};
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuModuleLoadData(&module, cubin.data()) != CUDA_SUCCESS ||
        cuModuleGetFunction(&kernel, module, "kernel") != CUDA_SUCCESS ||
        cuMemAlloc(&out, sizeof value) != CUDA_SUCCESS ||
        cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) != CUDA_SUCCESS ||
        cuMemcpyDtoH(&value, out, sizeof value) != CUDA_SUCCESS) {
        std::printf("the driver refuses it\n");
        return 1;
    }
    std::printf("kernel: %d\n", value);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::map<std::string, nvJitLinkInputType> kinds = {
        {"ptx", NVJITLINK_INPUT_PTX},       {"cubin", NVJITLINK_INPUT_CUBIN},     {"fatbin", NVJITLINK_INPUT_FATBIN},
        {"object", NVJITLINK_INPUT_OBJECT}, {"library", NVJITLINK_INPUT_LIBRARY}, {"ltoir", NVJITLINK_INPUT_LTOIR}};
    nvJitLinkHandle handle = nullptr;
    const char* none[] = {"-lineinfo"};
    if (nvJitLinkCreate(&handle, 1, none) != NVJITLINK_ERROR_MISSING_ARCH)
        return failed("an option too few", 0, nullptr);
    const char* unknown[] = {"-arch=sm_90", "-no-such-option"};
    if (nvJitLinkCreate(&handle, 2, unknown) != NVJITLINK_ERROR_UNRECOGNIZED_OPTION)
        return failed("an option too many", 0, nullptr);
    const char* options[] = {"-arch=sm_90", "-lineinfo", "-O3"};
    if (const int status = nvJitLinkCreate(&handle, 3, options); status != NVJITLINK_SUCCESS)
        return failed("create", status, nullptr);
    for (int i = 1; i + 1 < argc; i += 2)
        if (const int status = nvJitLinkAddFile(handle, kinds.at(argv[i]), argv[i + 1]); status != NVJITLINK_SUCCESS)
            return failed(argv[i + 1], status, handle);
    if (const int status = nvJitLinkComplete(handle); status != NVJITLINK_SUCCESS)
        return failed("complete", status, handle);
    std::size_t bytes = 0;
    if (nvJitLinkGetLinkedCubinSize(handle, &bytes) != NVJITLINK_SUCCESS || bytes == 0)
        return failed("size", 0, handle);
    std::vector<char> cubin(bytes);
    if (nvJitLinkGetLinkedCubin(handle, cubin.data()) != NVJITLINK_SUCCESS)
        return failed("cubin", 0, handle);
    if (nvJitLinkDestroy(&handle) != NVJITLINK_SUCCESS || handle != nullptr)
        return failed("destroy", 0, nullptr);
    return run(cubin);
}
