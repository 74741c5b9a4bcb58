// What the compiler and the linker within the driver say, in the buffers that CUjit_option gives them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

namespace vgpu::cuda {

// A buffer of the program's, CU_JIT_ERROR_LOG_BUFFER or CU_JIT_INFO_LOG_BUFFER, and its size in bytes.
class JitLog {
  public:
    JitLog() = default;
    // `buffer` and `size` are the options that stand for the two; a log that the program does not want takes nothing.
    JitLog(unsigned count, const CUjit_option* options, void** values, CUjit_option buffer, CUjit_option size);

    // Writes as much of the text as there is room for, and in the size's place how much that is.
    void write(const std::string& text) const;

  private:
    char* buffer_ = nullptr;
    std::size_t room_ = 0;
    void** written_ = nullptr;
};

// The option's value, or nullptr.
void** jit_value(unsigned count, const CUjit_option* options, void** values, CUjit_option wanted);

}  // namespace vgpu::cuda
