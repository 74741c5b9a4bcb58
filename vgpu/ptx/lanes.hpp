// How handlers go over the lanes of a warp, and how values lie in registers: in the low bits of 64, signed ones
// extended by their sign so that a wider register reads them rightly (PTX ISA, "Operand Size Exceeding
// Instruction-Type Size").
#pragma once

#include <bit>
#include <type_traits>

#include "vgpu/ptx/machine.hpp"

namespace vgpu::ptx {

template <class F>
inline void lanes(Mask mask, F f) {
    if (mask == kAllLanes) {
        for (unsigned lane = 0; lane < kLanes; ++lane)
            f(lane);
    } else {
        for (; mask != 0; mask &= mask - 1)
            f(static_cast<unsigned>(__builtin_ctz(mask)));
    }
}

// The highest lane first.
template <class F>
inline void lanes_down(Mask mask, F f) {
    while (mask != 0) {
        const unsigned lane = kLanes - 1 - static_cast<unsigned>(std::countl_zero(mask));
        mask &= ~(Mask{1} << lane);
        f(lane);
    }
}

template <class T>
inline T from_slot(u64 bits) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<float>(static_cast<u32>(bits));
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<double>(bits);
    else
        return static_cast<T>(bits);
}

template <class T>
inline u64 to_slot(T value) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<u32>(value);
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<u64>(value);
    else if constexpr (std::is_same_v<T, bool>)
        return value;
    else if constexpr (std::is_signed_v<T>)
        return static_cast<u64>(static_cast<s64>(value));
    else
        return static_cast<u64>(value);
}

template <class D, class A, class F>
void unary(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = to_slot<D>(F{}(from_slot<A>(a[i]))); });
}

template <class D, class A, class F>
void binary(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = to_slot<D>(F{}(from_slot<A>(a[i]), from_slot<A>(b[i]))); });
}

template <class D, class A, class C, class F>
void ternary(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask,
          [&](unsigned i) { d[i] = to_slot<D>(F{}(from_slot<A>(a[i]), from_slot<A>(b[i]), from_slot<C>(c[i]))); });
}

}  // namespace vgpu::ptx
