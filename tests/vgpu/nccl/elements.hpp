// Elements of every NCCL datatype and what a reduction of them is: plain arithmetic in double, and the conversions of
// CUDA's own headers, nothing of the library under test.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <nccl.h>

#include <cstddef>
#include <vector>

namespace vgpu::test {

inline constexpr ncclDataType_t kTypes[] = {ncclInt8,    ncclUint8,    ncclInt32,      ncclUint32,
                                            ncclInt64,   ncclUint64,   ncclFloat16,    ncclFloat32,
                                            ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
inline constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

std::size_t bytes_of(ncclDataType_t type);
bool is_integer(ncclDataType_t type);
// The step between neighbouring numbers near 1.
double epsilon(ncclDataType_t type);

using Bytes = std::vector<unsigned char>;
Bytes encode(ncclDataType_t type, const std::vector<double>& values);
std::vector<double> decode(ncclDataType_t type, const Bytes& bytes);

// Of one element's values, one from each rank.
double reduce(ncclDataType_t type, ncclRedOp_t op, const std::vector<double>& values);

}  // namespace vgpu::test
