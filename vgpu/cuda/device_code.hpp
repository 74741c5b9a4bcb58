// Device code that the engine (vgpu/ptx) runs: the linked module of an image, its variables in the contexts that use
// it, and launches of its kernels.
#pragma once

#include <string_view>

#include "vgpu/cuda/module.hpp"

namespace vgpu::cuda {

// Links the image's PTX at the first call; nullptr where it has none or the engine refuses it (Image::refusal).
const ptx::Module* linked(Image& image);

// The variables of the image in the context, which get memory and their initial values at the first call.
CUresult place(Image& image, Context& context, std::shared_ptr<const ptx::Addresses>& addresses);

// A variable that programs may ask for. CUDA_ERROR_NOT_FOUND where the image has none of this name.
CUresult variable(Image& image, Context& context, std::string_view name, CUdeviceptr* address, std::size_t* bytes);

// Frees what the image has in all contexts, after their work.
void release_variables(Image& image);

// The parameters as the kernel finds them. False where `extra` is not what CUDA documents, or too short.
bool pack(const ptx::Kernel& kernel, void** parameters, void** extra, std::vector<std::byte>& packed);

// Runs on a stream's thread. How it ends badly is said once on standard error, and stays the context's error.
void run_kernel(const Function& function, const ptx::Shape& shape, const std::vector<std::byte>& packed,
                const ptx::Addresses& addresses, Context& context);

// The line that a launch says once of a kernel that nothing can run.
void explain_no_code(const Function& function);

// What cuCtxSetLimit has set, or CUDA's default.
std::size_t limit_of(const Context& context, CUlimit limit);

}  // namespace vgpu::cuda
