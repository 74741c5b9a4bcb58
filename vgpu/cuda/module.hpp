// Modules, libraries and functions within libcuda.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "vgpu/core/kernels.hpp"
#include "vgpu/cuda/api.hpp"

namespace vgpu::cuda {

struct Image;

// A kernel: CUfunction and CUkernel are handles of it.
struct Function {
    Image* image = nullptr;
    std::string name;
    Twin twin;
    int max_dynamic_shared = 49152;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
};

// Device code that a program loaded: CUmodule and CUlibrary are handles of it. Virtual GPUs run none of it; it is
// looked at only for the names in it, where it is not compressed.
struct Image {
    Context* context = nullptr;  // nullptr for a library, which all contexts share
    std::string text;            // what can be searched for names; empty when nothing can be known
    bool searchable = false;
    std::mutex lock;
    std::map<std::string, std::shared_ptr<Function>> functions;
};

Registry<Image>& image_handles();
std::shared_ptr<Function> function_of(const void* handle);

// The function of this name, made on first asking; nullptr when the image is known not to have it.
Function* function_in(Image& image, const char* name);

}  // namespace vgpu::cuda
