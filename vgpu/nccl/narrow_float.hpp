// Half, bfloat16 and the two 8-bit floating types: conversion from and to float, rounding to nearest even.
// Used by reduction.cpp. Written over bit patterns, so it is the same on every CPU and compiler.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace vgpu::nccl {

// The layout of a narrow type: sign, `Exponent` bits, `Mantissa` bits. `Finite`: no infinities, and only the pattern
// with all bits set is a NaN (e4m3); overflow then gives the largest number, as CUDA's saturating conversion does.
template <int Exponent, int Mantissa, bool Finite>
struct NarrowFloat {
    static constexpr int kBias = (1 << (Exponent - 1)) - 1;
    static constexpr std::uint32_t kMantissaMask = (1u << Mantissa) - 1;
    static constexpr std::uint32_t kExponentMask = (1u << Exponent) - 1;
    static constexpr std::uint32_t kSign = 1u << (Exponent + Mantissa);
    static constexpr std::uint32_t kNan = Finite ? kSign - 1 : (kExponentMask << Mantissa) | (1u << (Mantissa - 1));
    static constexpr std::uint32_t kLargest = Finite ? kSign - 2 : (kExponentMask << Mantissa) - 1;

    static float widen(std::uint32_t bits) {
        const float sign = (bits & kSign) != 0 ? -1.0f : 1.0f;
        const std::uint32_t exponent = (bits >> Mantissa) & kExponentMask;
        const std::uint32_t mantissa = bits & kMantissaMask;
        if (Finite ? (bits & (kSign - 1)) == kNan : exponent == kExponentMask && mantissa != 0)
            return std::copysign(NAN, sign);
        if (!Finite && exponent == kExponentMask)
            return sign * INFINITY;
        if (exponent == 0)
            return sign * std::ldexp(static_cast<float>(mantissa), 1 - kBias - Mantissa);
        return sign * std::ldexp(static_cast<float>(mantissa | (1u << Mantissa)),
                                 static_cast<int>(exponent) - kBias - Mantissa);
    }

    static std::uint32_t narrow(float value, bool saturate) {
        const std::uint32_t wide = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = (wide >> 31) != 0 ? kSign : 0;
        const std::uint32_t magnitude = wide & 0x7fffffffu;
        const std::uint32_t overflow = Finite || saturate ? kLargest : kExponentMask << Mantissa;
        if (magnitude > 0x7f800000u)
            return sign | kNan;
        if (magnitude == 0x7f800000u)
            return sign | overflow;
        int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;  // in the narrow type's counting
        std::uint32_t mantissa = magnitude & 0x7fffffu;
        if ((magnitude >> 23) == 0)
            exponent += 1;  // subnormal in float, so far below every narrow type but bfloat16
        else
            mantissa |= 0x800000u;
        int drop = 23 - Mantissa;
        if (exponent <= 0) {
            drop += 1 - exponent;
            exponent = 0;
            if (drop > 25)
                return sign;
        } else {
            exponent -= (mantissa & 0x800000u) != 0 ? 1 : 0;  // the leading bit adds it back
            if ((mantissa & 0x800000u) == 0)
                exponent = 0;
        }
        const std::uint32_t rest = mantissa & ((1u << drop) - 1);
        const std::uint32_t half = 1u << (drop - 1);
        std::uint32_t result = (static_cast<std::uint32_t>(exponent) << Mantissa) + (mantissa >> drop);
        if (rest > half || (rest == half && (result & 1) != 0))
            ++result;
        return sign | (result > kLargest ? overflow : result);
    }
};

using Half = NarrowFloat<5, 10, false>;
using Bfloat16 = NarrowFloat<8, 7, false>;
using Fp8E4m3 = NarrowFloat<4, 3, true>;
using Fp8E5m2 = NarrowFloat<5, 2, false>;

}  // namespace vgpu::nccl
