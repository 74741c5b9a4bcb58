// What a driver of some version takes of an image of device code: which of its members it would load on a device, or
// its refusal. The PTX of an image is what the engine can run of it (vgpu/ptx), whichever member hardware would load.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace vgpu::cuda {

struct Loaded {
    CUresult result = CUDA_SUCCESS;
    std::string log;               // what the compiler within the driver says of PTX that it refuses
    std::string text;              // the member that is loaded, as it can be searched for names
    bool searchable = false;       // false where the member is compressed
    std::vector<std::string> ptx;  // the newest that the device could take; of each object, where they are to be linked
    std::string without;           // why there is none where the image has some, if so
};

// `driver` is a version as cuDriverGetVersion gives it, `capability` 90 for compute capability 9.0. The formats: a
// cubin (ELF, whose headers have its size), PTX (text that ends with 0), a fat binary of several of both.
Loaded load_image(const void* data, int driver, int capability);

// The newest PTX of the fat binary at `data` that the driver could compile for the device; empty, and why, where it has
// none or the PTX cannot be had.
std::string newest_ptx_of(const char* data, int driver, int capability, std::string& reason);

// The size of the fat binary that the bytes begin with; 0 where they begin with none, or not with all of one.
std::size_t fatbin_bytes(std::string_view bytes);

// The version of the ELF interface that a driver takes: CUDA 13's assembler writes version 8, where the architecture
// stands in other bits of the flags; CUDA 12's drivers came before it.
int newest_interface(int driver);

}  // namespace vgpu::cuda
