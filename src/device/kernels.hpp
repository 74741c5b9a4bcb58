// The library's own kernels: device code that nvcc made when the library was built, loaded into each context before the
// first communication there (CUDA otherwise loads lazily, and loading may wait for an NCCL kernel that waits for this
// process). Used through Stream::launch().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace swy::device {

enum class Kernel : std::uint8_t {
    kPack1,  // of words of 1, 2, 4, 8, 16 bytes (datatype/pack_work.hpp)
    kPack2,
    kPack4,
    kPack8,
    kPack16,
    kUnpack1,
    kUnpack2,
    kUnpack4,
    kUnpack8,
    kUnpack16,
#define SWY_REDUCE_TYPE(Name, name, Type) kReduce##Name,  // of elements of that type (datatype/reduce_work.hpp)
#include "datatype/reduce_types.def"
#undef SWY_REDUCE_TYPE
    kEnd,
};
inline constexpr std::size_t kKernels = static_cast<std::size_t>(Kernel::kEnd);

bool kernels_built();        // whether the library was built with nvcc
std::string kernels_text();  // "for compute capability 7.5 and later", or what works differently without kernels

// The image that cuModuleLoadData takes; null where there is none.
const void* kernel_image();

}  // namespace swy::device
