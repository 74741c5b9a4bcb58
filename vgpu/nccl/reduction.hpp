// Reductions: for each datatype and operator how elements are loaded, combined and stored.
// Used by the executor alone. All ranks' elements are combined in rank order, so every rank gets the same bits.
//
// Narrow floating types (half, bfloat16, fp8) are accumulated in float and rounded once, to nearest even, at the end.
// Integers wrap. Avg is, as in NCCL, a sum of pre-multiplied values for floating types and a sum with a truncating
// division at the end for integers. Min and max ignore a NaN where the other value is a number, as fmin and fmax do.
#pragma once

#include <cstddef>
#include <cstdint>

#include <nccl.h>

namespace vgpu::nccl {

// The value that an operator multiplies or divides by.
struct Scalar {
    alignas(8) unsigned char bytes[8] = {};
};

// One combination of datatype and operator. An accumulator holds `width` bytes an element.
struct Reduction {
    std::size_t element = 0;  // bytes in memory
    std::size_t width = 0;
    void (*first)(void* accumulator, const void* elements, std::size_t count, const Scalar& scalar) = nullptr;
    void (*next)(void* accumulator, const void* elements, std::size_t count, const Scalar& scalar) = nullptr;
    void (*write)(void* elements, const void* accumulator, std::size_t count, const Scalar& scalar) = nullptr;
    Scalar scalar;
};

// `op` is a built-in operator.
Reduction reduction(ncclDataType_t type, int op, int ranks);

// Elements times a scalar of their type, rounded to it.
void multiply(ncclDataType_t type, void* result, const void* elements, std::size_t count, const void* scalar);

}  // namespace vgpu::nccl
