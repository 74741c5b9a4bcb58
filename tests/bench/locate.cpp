// Asks N times where a host buffer lives: what locate.test counts and times.
//   locate STATE N [direct]   STATE: none (no driver in the process), loaded (a driver, before cuInit), context (the
//   process
//                             has a CUDA context). direct: asks the driver itself instead.
// Prints nanoseconds a question, the best of several runs. libcuda.so.1 is loaded as a program would load it.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "device/device.hpp"

namespace {

template <typename F>
F* symbol(void* library, const char* name) {
    auto* address = reinterpret_cast<F*>(dlsym(library, name));
    if (address == nullptr) {
        std::fprintf(stderr, "locate: no %s\n", name);
        std::exit(1);
    }
    return address;
}

// The driver's own question, in the state asked for.
decltype(&::cuPointerGetAttribute) prepare(std::string_view state) {
    if (state == "none")
        return nullptr;
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
        std::fprintf(stderr, "locate: %s\n", dlerror());
        std::exit(77);
    }
    if (state == "context") {
        CUcontext context = nullptr;
        if (symbol<CUresult(unsigned)>(library, "cuInit")(0) != CUDA_SUCCESS ||
            symbol<CUresult(CUcontext*, CUdevice)>(library, "cuDevicePrimaryCtxRetain")(&context, 0) != CUDA_SUCCESS ||
            symbol<CUresult(CUcontext)>(library, "cuCtxSetCurrent")(context) != CUDA_SUCCESS) {
            std::fprintf(stderr, "locate: no device\n");
            std::exit(77);
        }
    }
    if (!swy::device::adopt_loaded_driver())
        std::exit(1);
    return symbol<std::remove_pointer_t<decltype(&::cuPointerGetAttribute)>>(library, "cuPointerGetAttribute");
}

// noinline: its calls are what callgrind counts.
__attribute__((noinline)) long ours(const char* buffer, long times) {
    long found = 0;
    for (long i = 0; i < times; ++i)
        found += swy::device::on_device(buffer + i % 64) ? 1 : 0;
    return found;
}

__attribute__((noinline)) long directly(decltype(&::cuPointerGetAttribute) ask, const char* buffer, long times) {
    long found = 0;
    for (long i = 0; i < times; ++i) {
        CUmemorytype type{};
        if (ask != nullptr)
            found += ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(buffer + i % 64)) ==
                             CUDA_SUCCESS
                         ? 1
                         : 0;
    }
    return found;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: locate none|loaded|context N [direct]\n");
        return 2;
    }
    const auto ask = prepare(argv[1]);
    const long times = std::atol(argv[2]);
    const bool direct = argc > 3;
    static char buffer[4096];
    using Clock = std::chrono::steady_clock;
    double best = 1e30;
    for (int run = 0; run < 5; ++run) {
        const auto start = Clock::now();
        if ((direct ? directly(ask, buffer, times) : ours(buffer, times)) != 0)
            return 1;
        best = std::min(
            best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / static_cast<double>(times));
    }
    std::printf("%.2f\n", best);
    return 0;
}
