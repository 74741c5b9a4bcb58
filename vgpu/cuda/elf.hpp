// The ELF files that device code comes in: cubins, and host objects that hold fat binaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vgpu::cuda {

struct Section {
    std::string_view name;
    std::string_view content;  // within the file
};

// The file's sections with content; none where it is no ELF file of 64 bits, or its headers point outside it.
std::vector<Section> sections_of(std::string_view file);

// What the virtual GPUs' linker makes: a cubin for this compute capability whose sections hold PTX in place of machine
// code, one of each text. `interface` is the version of NVIDIA's ELF interface (EI_ABIVERSION), 7 or 8.
std::string cubin_of(const std::vector<std::string>& texts, int capability, int interface);

// The PTX of such a cubin; none where another linker has made it.
std::vector<std::string> texts_of(std::string_view cubin);

constexpr unsigned kCubinMachine = 190;  // EM_CUDA

}  // namespace vgpu::cuda
