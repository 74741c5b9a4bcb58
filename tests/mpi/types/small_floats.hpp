// The formats of MPIX_FLOAT16 and its kin by their definitions: a table of all numbers of a format, and the nearest one
// found in it. Tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

class SmallFloats {
  public:
    // `infinite`: the largest exponent is for infinities and NaNs (IEEE 754, OCP's e5m2); otherwise all ones alone are
    // a NaN (OCP's e4m3). `saturates`: what is too large becomes the largest number.
    SmallFloats(int exponent_bits, int mantissa_bits, bool infinite, bool saturates)
        : saturates_(saturates), sign_(1u << (exponent_bits + mantissa_bits)) {
        const int bias = (1 << (exponent_bits - 1)) - 1;
        const std::uint32_t top = (1u << exponent_bits) - 1;
        infinity_ = top << mantissa_bits;
        for (std::uint32_t bits = 0; bits < sign_; ++bits) {
            const std::uint32_t exponent = bits >> mantissa_bits, mantissa = bits & ((1u << mantissa_bits) - 1);
            if (infinite ? exponent == top : bits == sign_ - 1)
                break;
            const double fraction = std::ldexp(mantissa, -mantissa_bits);
            positive_.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                              : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias));
        }
    }

    std::uint32_t numbers() const { return static_cast<std::uint32_t>(positive_.size()); }  // from zero up
    std::uint32_t sign() const { return sign_; }
    std::uint32_t infinity() const { return infinity_; }
    double value(std::uint32_t bits) const {
        const double magnitude = positive_.at(bits & (sign_ - 1));
        return (bits & sign_) != 0 ? -magnitude : magnitude;
    }

    // Round to nearest, ties to even (IEEE 754 section 4.3.1).
    std::uint32_t nearest(double value) const {
        const std::uint32_t sign = std::signbit(value) ? sign_ : 0;
        const double magnitude = std::fabs(value);
        const auto above = std::lower_bound(positive_.begin(), positive_.end(), magnitude);
        if (above == positive_.end())
            return sign | too_large(magnitude);
        auto bits = static_cast<std::uint32_t>(above - positive_.begin());
        if (bits > 0) {
            const double up = *above - magnitude, down = magnitude - positive_[bits - 1];
            if (down < up || (down == up && bits % 2 == 1))
                --bits;
        }
        return sign | bits;
    }

  private:
    std::uint32_t too_large(double magnitude) const {
        const double last = positive_.back(), step = last - positive_[positive_.size() - 2];
        const bool rounds_down = magnitude - last < step / 2;  // a tie goes to the even neighbour, the power of two
        return saturates_ || rounds_down ? numbers() - 1 : infinity_;
    }

    bool saturates_;
    std::uint32_t sign_, infinity_ = 0;
    std::vector<double> positive_;
};
