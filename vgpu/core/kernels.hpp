// The CPU twins of kernels, found by name in the shared libraries of VGPU_KERNELS.
#pragma once

#include <string>
#include <vector>

#include "vgpu/vgpu_kernels.h"

namespace vgpu {

struct Twin {
    vgpu_kernel run = nullptr;
    bool sizes_known = false;
    std::vector<std::size_t> sizes;  // of the parameters, in order
};

// Opens the libraries; each that cannot be opened adds a complaint. Idempotent.
void load_kernel_libraries(std::vector<std::string>& complaints);

// `run` is nullptr when no library has a twin of this name.
Twin find_twin(const std::string& kernel);

// Any symbol of the libraries; nullptr when none has it.
void* find_symbol(const char* symbol);

}  // namespace vgpu
