// Joins device code that was compiled apart, for the driver's cuLink* and for nvJitLink. The virtual GPUs run PTX, so
// PTX is what their linker takes of its inputs and what its cubin holds (elf.hpp).
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>
#include <vector>

namespace vgpu::cuda {

class Linker {
  public:
    // Any: whichever of the others the bytes are.
    enum class Kind { Cubin, Ptx, Fatbin, Object, Library, Any };

    // `cuda` is the newest release whose PTX it takes, 13000 for 13.0, `capability` 90 for compute capability 9.0,
    // `interface` the version of NVIDIA's ELF interface that its cubin has.
    Linker(int cuda, int capability, int interface) : cuda_(cuda), capability_(capability), interface_(interface) {}

    // `name` stands for the input in messages. CUDA_ERROR_INVALID_PTX or CUDA_ERROR_UNSUPPORTED_PTX_VERSION for PTX
    // that it cannot take, CUDA_ERROR_INVALID_IMAGE for bytes that are not of `kind`, CUDA_ERROR_NO_BINARY_FOR_GPU for
    // what has machine code alone; log() says more.
    CUresult add(Kind kind, std::string_view bytes, const std::string& name);

    // CUDA_ERROR_INVALID_IMAGE where a symbol is defined in none of the inputs, or in two.
    CUresult complete();

    const std::string& cubin() const { return cubin_; }  // after complete()
    const std::string& log() const { return log_; }      // what is wrong, a line each

  private:
    CUresult add_ptx(const std::string& text, const std::string& name);
    CUresult add_cubin(std::string_view bytes, const std::string& name);
    CUresult add_fatbin(std::string_view bytes, const std::string& name);
    CUresult add_object(std::string_view bytes, const std::string& name);
    CUresult add_library(std::string_view bytes, const std::string& name);
    CUresult refuse(CUresult result, const std::string& name, const std::string& why);

    const int cuda_;
    const int capability_;
    const int interface_;
    std::vector<std::string> texts_;
    std::string unused_;  // what was left out of libraries: nobody may want it
    std::string cubin_;
    std::string log_;
};

}  // namespace vgpu::cuda
