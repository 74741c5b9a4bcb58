// NVIDIA's static CUDA runtime in the executable of this process, found by its symbol table.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vgpu::static_runtime {

struct Function {
    std::string name;
    unsigned char* entry;
    std::size_t room;  // bytes from the entry up to what the symbol table has next
};

struct Runtime {
    std::vector<Function> functions;  // by address; empty where the executable has no such runtime, or was stripped
    int major = 0;                    // the CUDA version to whose binary interface the executable was compiled
};

Runtime find_runtime();

}  // namespace vgpu::static_runtime
