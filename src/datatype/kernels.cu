// The kernels of Switchyard. Each is a function of one word or element, which lies in a header that the counterparts
// for virtual GPUs (vgpu/core/built_in.cpp) share. Their names are listed in src/device/kernels.cpp.
#include "datatype/pack_work.hpp"
#include "datatype/reduce_work.hpp"

using namespace swy::datatype;

struct alignas(16) Word16 {
    std::uint64_t half[2];
};

template <typename Word, bool kUnpack>
__device__ void move_words(const PackWork& work) {
    const std::uint64_t words = words_of(work), stride = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += stride) {
        std::int64_t in_memory;
        std::uint64_t in_packed;
        if (!find_word(work, i, in_memory, in_packed))
            continue;
        Word* memory = reinterpret_cast<Word*>(work.memory + static_cast<std::uint64_t>(in_memory));
        Word* packed = reinterpret_cast<Word*>(work.packed + in_packed);
        if (kUnpack)
            *memory = *packed;
        else
            *packed = *memory;
    }
}

#define SWY_PACK_KERNELS(bytes, Word)                                                             \
    extern "C" __global__ void switchyard_pack_##bytes(const __grid_constant__ PackWork work) {   \
        move_words<Word, false>(work);                                                            \
    }                                                                                             \
    extern "C" __global__ void switchyard_unpack_##bytes(const __grid_constant__ PackWork work) { \
        move_words<Word, true>(work);                                                             \
    }

SWY_PACK_KERNELS(1, std::uint8_t)
SWY_PACK_KERNELS(2, std::uint16_t)
SWY_PACK_KERNELS(4, std::uint32_t)
SWY_PACK_KERNELS(8, std::uint64_t)
SWY_PACK_KERNELS(16, Word16)

template <typename T>
__device__ void reduce(const ReduceWork& work) {
    const T* in = reinterpret_cast<const T*>(work.in);
    T* inout = reinterpret_cast<T*>(work.inout);
    const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < work.count; i += stride)
        combine(work.op, in[i], inout[i]);
}

#define SWY_REDUCE_TYPE(Name, name, Type)                                                          \
    extern "C" __global__ void switchyard_reduce_##name(const __grid_constant__ ReduceWork work) { \
        reduce<Type>(work);                                                                        \
    }
#include "datatype/reduce_types.def"
#undef SWY_REDUCE_TYPE
