// CPU twins of the kernels of kernel_client.cu, and of two that kernel.cpp registers by hand. A shared library for
// VGPU_KERNELS.
#include <vgpu_kernels.h>

#include <atomic>
#include <cstddef>

namespace {

constexpr int kDevices = 16;
float* factors[kDevices];  // where each device keeps the variable `factor`

std::size_t threads(const vgpu_launch* launch) {
    return std::size_t{1} * launch->grid[0] * launch->grid[1] * launch->grid[2] * launch->block[0] * launch->block[1] *
           launch->block[2];
}

template <class Value>
Value argument(void** arguments, int index) {
    return *static_cast<Value*>(arguments[index]);
}

}  // namespace

// __constant__ float factor = 3: a twin library gives the initial value.
VGPU_KERNEL_LINKAGE void vgpu_variable_factor(int device, void* address, std::size_t) {
    factors[device] = static_cast<float*>(address);
    *factors[device] = 3;
}

VGPU_KERNEL_LINKAGE void vgpu_variable_total(int, void* address, std::size_t) {
    *static_cast<int*>(address) = 40;
}

// __global__ void axpy(int n, float a, const float* x, float* y)
VGPU_KERNEL(_Z4axpyifPKfPf)(const vgpu_launch* launch, void** arguments) {
    const auto n = argument<int>(arguments, 0);
    const auto a = argument<float>(arguments, 1);
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(float);
    const auto* x = static_cast<const float*>(launch->resolve(launch, argument<const float*>(arguments, 2), bytes));
    auto* y = static_cast<float*>(launch->resolve(launch, argument<float*>(arguments, 3), bytes));
    for (int i = 0; i < n && static_cast<std::size_t>(i) < threads(launch); ++i)
        y[i] += a * x[i];
}
VGPU_KERNEL_PARAMETERS(_Z4axpyifPKfPf, sizeof(int), sizeof(float), sizeof(float*), sizeof(float*));

// __global__ void scale(float* x, int n), by `factor`
VGPU_KERNEL(_Z5scalePfi)(const vgpu_launch* launch, void** arguments) {
    const auto n = argument<int>(arguments, 1);
    auto* x = static_cast<float*>(
        launch->resolve(launch, argument<float*>(arguments, 0), static_cast<std::size_t>(n) * sizeof(float)));
    for (int i = 0; i < n; ++i)
        x[i] *= *factors[launch->device];
}
VGPU_KERNEL_PARAMETERS(_Z5scalePfi, sizeof(float*), sizeof(int));

// template <class T> __global__ void add(T* to, T value), for int
VGPU_KERNEL(_Z3addIiEvPT_S0_)(const vgpu_launch* launch, void** arguments) {
    auto* to = static_cast<int*>(launch->resolve(launch, argument<int*>(arguments, 0), sizeof(int)));
    *to += argument<int>(arguments, 1) * static_cast<int>(threads(launch));
}
VGPU_KERNEL_PARAMETERS(_Z3addIiEvPT_S0_, sizeof(int*), sizeof(int));
