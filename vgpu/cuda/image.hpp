// What a driver of some version takes of an image of device code: which of its members it would load on a device, or
// its refusal. The PTX of an image is what the engine can run of it (vgpu/ptx), whichever member hardware would load.
#pragma once

#include <cuda.h>

#include <string>
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

}  // namespace vgpu::cuda
