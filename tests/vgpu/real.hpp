// For tests that may run on real GPUs too, whose answers are the right ones: what only the virtual ones have, and how
// many devices there are.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace vgpu::test {

inline bool on_real_gpus() {
    static const bool real = dlsym(RTLD_DEFAULT, "vgpu_fault") == nullptr;
    return real;
}

inline int device_count() {
    int count = 0;
    return cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
}

}  // namespace vgpu::test

// First statements of a test, or of a fixture's SetUp.
#define VIRTUAL_ONLY(what)            \
    if (::vgpu::test::on_real_gpus()) \
    GTEST_SKIP() << "real GPUs have no " << (what)
#define NEEDS_DEVICES(count)                    \
    if (::vgpu::test::device_count() < (count)) \
    GTEST_SKIP() << "fewer than " << (count) << " GPUs"
