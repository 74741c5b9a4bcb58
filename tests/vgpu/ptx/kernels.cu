// Kernels for differential.cpp, which nvcc makes PTX of.
#include "tests/vgpu/ptx/formulas.hpp"

template <class T, void (*kFormula)(const T*, T*)>
__device__ void each(const T* in, T* out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        kFormula(in + formulas::kIn * i, out + formulas::kOut * i);
}

extern "C" __global__ void whole(const std::uint32_t* in, std::uint32_t* out, unsigned count) {
    each<std::uint32_t, formulas::whole>(in, out, count);
}
extern "C" __global__ void real32(const float* in, float* out, unsigned count) {
    each<float, formulas::real<float, std::uint32_t>>(in, out, count);
}
extern "C" __global__ void real64(const double* in, double* out, unsigned count) {
    each<double, formulas::real<double, std::uint64_t>>(in, out, count);
}

// The sum of all, by shuffles, shared memory and an atomic.
extern "C" __global__ void sum(const std::uint32_t* in, std::uint32_t* out, unsigned count) {
    __shared__ std::uint32_t warps[32];
    std::uint32_t mine = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        mine += in[i];
    for (unsigned step = 16; step > 0; step /= 2)
        mine += __shfl_down_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned i = 1; i < blockDim.x / 32; ++i)
            mine += warps[i];
        atomicAdd(out, mine);
    }
}
