// The compression of members of fat binaries.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace vgpu::cuda {

enum class Compression { Lz4, Zstd };

// The libraries are loaded at run time, as hwloc is: only a program with compressed device code needs them. Returns an
// empty text and says why in `reason` where the library is not there or the bytes are not `bytes` of it compressed.
std::string decompress(Compression how, std::span<const char> compressed, std::size_t bytes, std::string& reason);

}  // namespace vgpu::cuda
