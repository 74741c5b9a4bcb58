#include "vgpu/core/built_in.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "datatype/pack_work.hpp"
#include "datatype/reduce_work.hpp"

namespace vgpu {
namespace {

using swy::datatype::PackWork;
using swy::datatype::ReduceWork;

char* reach(const vgpu_launch* launch, std::uint64_t address, std::uint64_t bytes) {
    void* found = launch->resolve(launch, reinterpret_cast<const void*>(address), bytes);
    if (found == nullptr) {  // on a GPU the context would be lost
        std::fprintf(stderr, "vgpu: a kernel of Switchyard's reaches outside its memory: %llu bytes at %#llx\n",
                     static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address));
        std::abort();
    }
    return static_cast<char*>(found);
}

// A GPU reads and writes a word as a whole, at a multiple of its size.
void expect_aligned(std::uint64_t address, std::uint64_t bytes) {
    if (address % bytes == 0)
        return;
    std::fprintf(stderr, "vgpu: a kernel of Switchyard's has a misaligned address: a word of %llu bytes at %#llx\n",
                 static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address));
    std::abort();
}

// Calls `act` for each of `count` words or elements, in the order of the launch's threads: one goes from its own to
// those a whole grid further on.
template <typename Act>
void each_of_grid(const vgpu_launch* launch, std::uint64_t count, Act act) {
    const auto threads = [](const unsigned* sizes) { return std::uint64_t{sizes[0]} * sizes[1] * sizes[2]; };
    const std::uint64_t stride = threads(launch->grid) * threads(launch->block);
    for (std::uint64_t thread = 0; thread < stride && thread < count; ++thread)
        for (std::uint64_t i = thread; i < count; i += stride)
            act(i);
}

template <std::size_t kBytes, bool kUnpack>
void move_words(const vgpu_launch* launch, void** arguments) {
    const auto& work = *static_cast<const PackWork*>(arguments[0]);
    char* memory = reach(launch, work.low, work.high - work.low) + static_cast<std::int64_t>(work.memory - work.low);
    char* packed = reach(launch, work.packed, work.to - work.from);
    each_of_grid(launch, words_of(work), [&](std::uint64_t i) {
        std::int64_t in_memory = 0;
        std::uint64_t in_packed = 0;
        if (!find_word(work, i, in_memory, in_packed))
            return;
        expect_aligned(work.memory + static_cast<std::uint64_t>(in_memory), kBytes);
        expect_aligned(work.packed + in_packed, kBytes);
        if (kUnpack)
            std::memcpy(memory + in_memory, packed + in_packed, kBytes);
        else
            std::memcpy(packed + in_packed, memory + in_memory, kBytes);
    });
}

template <typename T>
void reduce(const vgpu_launch* launch, void** arguments) {
    const auto& work = *static_cast<const ReduceWork*>(arguments[0]);
    const auto* in = reinterpret_cast<const T*>(reach(launch, work.in, work.count * sizeof(T)));
    auto* inout = reinterpret_cast<T*>(reach(launch, work.inout, work.count * sizeof(T)));
    expect_aligned(work.in, alignof(T));
    expect_aligned(work.inout, alignof(T));
    each_of_grid(launch, work.count, [&](std::uint64_t i) { combine(work.op, in[i], inout[i]); });
}

constexpr BuiltIn kTwins[] = {
    {"switchyard_pack_1", move_words<1, false>, sizeof(PackWork)},
    {"switchyard_pack_2", move_words<2, false>, sizeof(PackWork)},
    {"switchyard_pack_4", move_words<4, false>, sizeof(PackWork)},
    {"switchyard_pack_8", move_words<8, false>, sizeof(PackWork)},
    {"switchyard_pack_16", move_words<16, false>, sizeof(PackWork)},
    {"switchyard_unpack_1", move_words<1, true>, sizeof(PackWork)},
    {"switchyard_unpack_2", move_words<2, true>, sizeof(PackWork)},
    {"switchyard_unpack_4", move_words<4, true>, sizeof(PackWork)},
    {"switchyard_unpack_8", move_words<8, true>, sizeof(PackWork)},
    {"switchyard_unpack_16", move_words<16, true>, sizeof(PackWork)},
#define SWY_REDUCE_TYPE(Name, name, Type) {"switchyard_reduce_" #name, reduce<Type>, sizeof(ReduceWork)},
#include "datatype/reduce_types.def"
#undef SWY_REDUCE_TYPE
};

}  // namespace

std::span<const BuiltIn> built_in_twins() {
    return kTwins;
}

}  // namespace vgpu
