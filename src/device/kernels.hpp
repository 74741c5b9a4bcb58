// The library's own kernels: device code that nvcc made when the library was built, loaded into each context before the
// first communication there (CUDA otherwise loads lazily, and loading may wait for an NCCL kernel that waits for this
// process). Used through Stream::launch().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

// What cuModuleLoadDataEx takes. They are tried in turn: a driver may refuse the first one (kernel_image.cpp says
// when), and its answer to that must not keep it from the next.
struct KernelImage {
    const char* what;  // for messages
    const void* data;
};
std::span<const KernelImage> kernel_images();  // none where the library was built without nvcc

// Why the kernels could not be loaded into the last context for which that failed: the driver's answer to each image,
// with its compiler's message. "" where they could be loaded everywhere, or nothing has asked for them yet.
std::string kernels_problem();
// Loads the kernels on a device as a program's first communication there does, and unloads them again: makes the
// device's primary context for that where there is none. For the switchyard command, not for programs.
std::string try_kernels(int ordinal);  // "", or what kernels_problem() says then

}  // namespace swy::device
