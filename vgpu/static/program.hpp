// NVIDIA's static CUDA runtime in an executable or a shared library of this process, found by its symbol table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::static_runtime {

struct Function {
    std::string name;
    unsigned char* entry;
    std::size_t room;  // bytes from the entry up to what the symbol table has next
};

struct Runtime {
    std::vector<Function> functions;  // by address; empty where the file has no such runtime, or was stripped
    int major = 0;                    // the CUDA version to whose binary interface the file was compiled
};

// `moved_by` is what is added to the file's addresses where it is mapped: link_map::l_addr.
Runtime find_runtime(const char* path, std::uintptr_t moved_by);

}  // namespace vgpu::static_runtime
