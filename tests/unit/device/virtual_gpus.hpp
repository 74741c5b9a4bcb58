// The driver API of the virtual GPUs for these tests, as a program that loads the driver itself would use it.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

// cu(NAME)(arguments...): a driver function by its exported name, in the form that cuda.h declares.
#define SWY_TEXT(x) #x
#define SWY_EXPORTED(x) SWY_TEXT(x)
#define cu(function) (reinterpret_cast<decltype(&::function)>(VirtualGpus::symbol(SWY_EXPORTED(function))))

// A failed call of the test's own ends the test.
#define MUST(call) ASSERT_EQ((call), CUDA_SUCCESS)

struct VirtualGpus {
    static void* library() {
        static void* the_library = [] {
            const char* build = std::getenv("SWY_BUILDDIR");
            const std::string file = std::string(build != nullptr ? build : ".") + "/vgpu/lib/libcuda.so.1";
            setenv("VGPU_COUNT", "3", 1);
            setenv("VGPU_MEMORY", "256M", 0);
            unsetenv("CUDA_VISIBLE_DEVICES");
            return dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
        }();
        return the_library;
    }

    static void* symbol(const char* name) {
        void* address = library() != nullptr ? dlsym(library(), name) : nullptr;
        if (address == nullptr) {
            std::fprintf(stderr, "the virtual GPUs' driver has no %s\n", name);
            std::abort();
        }
        return address;
    }

    // cuCtxCreate's second form: cuda.h declares another one with each major version.
    static CUcontext make_context(int device) {
        auto* create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(symbol("cuCtxCreate_v2"));
        CUcontext context = nullptr;
        CUcontext popped = nullptr;
        if (create(&context, 0, device) != CUDA_SUCCESS || cu(cuCtxPopCurrent)(&popped) != CUDA_SUCCESS)
            return nullptr;
        return context;
    }
};
