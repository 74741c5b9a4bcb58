// The twins of Switchyard's own kernels: they are in the virtual GPU's library itself, so that a program with
// Switchyard finds them without any setting.
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
