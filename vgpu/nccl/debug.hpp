// Messages in NCCL's own form, warnings and information, and the text that ncclGetLastError returns.
// NCCL_DEBUG = VERSION | WARN | INFO | TRACE selects as in NCCL; lines go to standard output, as NCCL's do.
#pragma once

#include <string>

namespace vgpu::nccl {

// Stores the text as the last error, whether it is printed or not.
[[gnu::format(printf, 1, 2)]] void warn(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void info(const char* format, ...);

const char* last_error();
void reload_debug_level();

// The CUDA device named in brackets, for the calling thread; -1 before one is known.
void set_debug_device(int device);

// Reports of VGPU_STRICT and notes on hanging operations: to standard error, whatever NCCL_DEBUG says.
void report(const std::string& line);

}  // namespace vgpu::nccl
