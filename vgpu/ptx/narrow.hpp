// Floating-point numbers of 8 and 16 bits, and how results are rounded.
#pragma once

#include <cfenv>
#include <cmath>
#include <limits>

#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {

struct Format {
    int exponent_bits, mantissa_bits;
    bool has_infinity = true;
    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    int bits() const { return 1 + exponent_bits + mantissa_bits; }
};
constexpr Format kHalf{5, 10}, kBrainHalf{8, 7}, kE4M3{4, 3, false}, kE5M2{5, 2};

double widen(const Format& format, u32 bits);
// Rounds once. `finite`: what is too large becomes the largest number.
u32 narrow(const Format& format, double value, Rounding rounding, bool finite = false);
// a * b + c rounded to odd, so that to round it again, to few bits, is to round it once.
double fused_to_odd(double a, double b, double c);

// Lanes of a warp are computed with the host's rounding mode set, if it is not the usual one.
class RoundingMode {
  public:
    explicit RoundingMode(Rounding rounding) : changed_(rounding != Rounding::Nearest) {
        if (changed_)
            std::fesetround(rounding == Rounding::Zero   ? FE_TOWARDZERO
                            : rounding == Rounding::Down ? FE_DOWNWARD
                            : rounding == Rounding::Up   ? FE_UPWARD
                                                         : FE_TONEAREST);
    }
    ~RoundingMode() {
        if (changed_)
            std::fesetround(FE_TONEAREST);
    }
    RoundingMode(const RoundingMode&) = delete;
    RoundingMode& operator=(const RoundingMode&) = delete;

  private:
    bool changed_;
};

// Results that are NaN: of .f32 a canonical one (PTX ISA, "Floating Point Instructions"), of .f64 what the host gives.
inline float canonical(float x) {
    return x != x ? std::bit_cast<float>(0x7fffffffu) : x;
}
inline double canonical(double x) {
    return x;
}

inline float flushed(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    return (bits & 0x7f800000) == 0 ? std::bit_cast<float>(bits & 0x80000000) : x;
}
inline double flushed(double x) {
    return x;
}

template <class T>
T saturated(T x) {
    return x > T{0} ? x < T{1} ? x : T{1} : T{0};  // NaN becomes 0
}

}  // namespace vgpu::ptx
