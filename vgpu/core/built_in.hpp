// The twins of Switchyard's own kernels. They are part of the virtual GPUs' libcuda, so Switchyard needs no
// VGPU_KERNELS.
#pragma once

#include <cstddef>
#include <span>

#include "vgpu/vgpu_kernels.h"

namespace vgpu {

struct BuiltIn {
    const char* name;  // of the kernel
    vgpu_kernel run;
    std::size_t parameter;  // bytes of its one parameter
};

std::span<const BuiltIn> built_in_twins();

}  // namespace vgpu
