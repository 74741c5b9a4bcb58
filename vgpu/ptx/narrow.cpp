#include "vgpu/ptx/narrow.hpp"

namespace vgpu::ptx {

double widen(const Format& format, u32 bits) {
    const u32 mantissa_mask = (1u << format.mantissa_bits) - 1, exponent_mask = (1u << format.exponent_bits) - 1;
    const u32 mantissa = bits & mantissa_mask, exponent = bits >> format.mantissa_bits & exponent_mask;
    const double sign = (bits >> (format.bits() - 1) & 1) != 0 ? -1.0 : 1.0;
    if (format.has_infinity ? exponent == exponent_mask : (bits & 0x7f) == 0x7f)
        return format.has_infinity && mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                                                    : std::numeric_limits<double>::quiet_NaN();
    const int shift = 1 - format.bias() - format.mantissa_bits;
    if (exponent == 0)
        return sign * std::ldexp(static_cast<double>(mantissa), shift);
    return sign * std::ldexp(static_cast<double>(mantissa | 1u << format.mantissa_bits),
                             shift + static_cast<int>(exponent) - 1);
}

namespace {

bool rounds_up(double rest, bool odd, bool negative, Rounding rounding) {
    switch (rounding) {
        case Rounding::Nearest:
            return rest > 0.5 || (rest == 0.5 && odd);
        case Rounding::NearestAway:
            return rest >= 0.5;
        case Rounding::Down:
            return negative && rest > 0;
        case Rounding::Up:
            return !negative && rest > 0;
        default:
            return false;
    }
}

}  // namespace

u32 narrow(const Format& format, double value, Rounding rounding, bool finite) {
    const u32 sign = std::signbit(value) ? 1u << (format.bits() - 1) : 0;
    const u32 infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
    const u32 largest = format.has_infinity ? infinity - 1 : 0x7e;
    if (value != value)
        return format.bits() == 8 ? 0x7f : 0x7fff;
    const double magnitude = std::fabs(value);
    if (magnitude == 0)
        return sign;
    if (std::isinf(magnitude))
        return sign | (finite ? largest : format.has_infinity ? infinity : 0x7f);
    const int least = 1 - format.bias(), exponent = std::max(std::ilogb(magnitude), least);
    if (exponent > format.bias() + 1)
        value = std::copysign(std::ldexp(1.0, format.bias() + 2), value);
    const int shown = std::min(exponent, format.bias() + 2);
    const double scaled = std::ldexp(std::fabs(value), format.mantissa_bits - shown);
    const double whole = std::floor(scaled);
    u32 digits = static_cast<u32>(whole);
    digits += rounds_up(scaled - whole, (digits & 1) != 0, sign != 0, rounding);
    const u32 bits = (static_cast<u32>(shown - least) << format.mantissa_bits) + digits;
    if (bits <= largest)
        return sign | bits;
    const bool stays = rounding == Rounding::Zero || (rounding == Rounding::Down && sign == 0) ||
                       (rounding == Rounding::Up && sign != 0);
    return sign | (finite || stays ? largest : format.has_infinity ? infinity : 0x7f);
}

double fused_to_odd(double a, double b, double c) {
    const double product = a * b;  // exact: the factors have 11 bits
    const double sum = product + c;
    if (!std::isfinite(sum))
        return sum;
    const double part = sum - product, error = (product - (sum - part)) + (c - part);
    u64 bits = std::bit_cast<u64>(sum);
    if (error == 0 || (bits & 1) != 0)
        return sum;
    // Away from zero where the error has the sum's sign, otherwise towards it; either neighbour is odd.
    bits += std::signbit(error) == std::signbit(sum) ? u64{1} : ~u64{0};
    return std::bit_cast<double>(bits);
}

}  // namespace vgpu::ptx
