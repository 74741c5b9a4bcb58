// Half, bfloat16 and the two 8-bit floating types: conversion to float, and from float rounded to nearest even. Written
// over bit patterns, so that every compiler, nvcc among them, gives the same numbers, however the program has subnormal
// numbers treated. Operators use it, on the host and in kernels.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define SWY_BOTH_SIDES __host__ __device__
#else
#define SWY_BOTH_SIDES
#endif

namespace swy::datatype {

template <typename To, typename From>
SWY_BOTH_SIDES inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// A sign, kExponent bits and kMantissa bits in one integer. The IEEE-like types (half, bfloat16) overflow to infinity;
// the 8-bit ones to their largest number, as CUDA's and NCCL's conversions to them do. e4m3 has no infinity, and one
// NaN.
template <typename Bits, int kExponent, int kMantissa>
struct NarrowFloat {
    static constexpr bool kSaturates = sizeof(Bits) == 1;
    static constexpr bool kFinite = kSaturates && kExponent == 4;
    static constexpr int kBias = (1 << (kExponent - 1)) - 1;
    static constexpr int kDropped = 23 - kMantissa;  // bits of a float's mantissa
    static constexpr std::uint32_t kSign = 1u << (kExponent + kMantissa);
    static constexpr std::uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
    static constexpr std::uint32_t kNan = kFinite ? kSign - 1 : kInfinity | 1u << (kMantissa - 1);
    static constexpr std::uint32_t kLargest = kFinite ? kNan - 1 : kInfinity - 1;
    static constexpr std::uint32_t kOverflow = kSaturates ? kLargest : kInfinity;

    Bits bits;

    SWY_BOTH_SIDES static float wide(NarrowFloat narrow) {
        const std::uint32_t sign = (narrow.bits & kSign) != 0 ? 0x80000000u : 0;
        const std::uint32_t magnitude = narrow.bits & (kSign - 1);
        const std::uint32_t exponent = magnitude >> kMantissa;
        if (kFinite ? magnitude == kNan : magnitude >= kInfinity)
            return same_bits<float>(sign | 0x7f800000u |
                                    (magnitude == kInfinity && !kFinite ? 0u : magnitude << kDropped | 0x400000u));
        if (kBias == 127)  // a float's own exponents
            return same_bits<float>(sign | magnitude << kDropped);
        if (exponent != 0)
            return same_bits<float>(sign | ((magnitude << kDropped) + ((127u - kBias) << 23)));
        const float unit = same_bits<float>((128u - kBias - kMantissa) << 23);  // the smallest subnormal number
        return same_bits<float>(sign | same_bits<std::uint32_t>(static_cast<float>(magnitude) * unit));
    }

    SWY_BOTH_SIDES static NarrowFloat narrow(float value) {
        const auto word = same_bits<std::uint32_t>(value);
        const std::uint32_t sign = word >> 31 != 0 ? kSign : 0;
        return {static_cast<Bits>(sign | rounded(word & 0x7fffffffu))};
    }

  private:
    SWY_BOTH_SIDES static std::uint32_t rounded(std::uint32_t magnitude) {
        if (magnitude > 0x7f800000u)
            return kNan;
        const int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;
        std::uint32_t mantissa = magnitude - (static_cast<std::uint32_t>(127 - kBias) << 23);
        int dropped = kDropped;
        if (exponent <= 0 && kBias != 127) {  // a subnormal number, or zero
            dropped += 1 - exponent;
            if (dropped > 24)
                return 0;
            mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        }
        const std::uint32_t even = mantissa >> dropped & 1;
        const std::uint32_t result = (mantissa + (1u << (dropped - 1)) - 1 + even) >> dropped;
        return result > kLargest ? kOverflow : result;
    }
};

using Float16 = NarrowFloat<std::uint16_t, 5, 10>;
using Bfloat16 = NarrowFloat<std::uint16_t, 8, 7>;
using Float8E4m3 = NarrowFloat<std::uint8_t, 4, 3>;
using Float8E5m2 = NarrowFloat<std::uint8_t, 5, 2>;

}  // namespace swy::datatype
