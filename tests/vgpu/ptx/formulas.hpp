// What kernels.cu computes on the engine and differential.cpp on the host. Each function makes kOut numbers of kIn.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__
#else
#define BOTH_SIDES
#endif

namespace formulas {

constexpr unsigned kIn = 4, kOut = 12;

BOTH_SIDES inline void whole(const std::uint32_t* in, std::uint32_t* out) {
    const std::uint32_t a = in[0], b = in[1], c = in[2] | 1, n = in[3] & 31;
    const auto sa = static_cast<std::int32_t>(a), sc = static_cast<std::int32_t>(c);
    const std::uint64_t wide = std::uint64_t{a} << 32 | b;
    const auto signed_wide = static_cast<std::int64_t>(wide);
    out[0] = a * b + c;
    out[1] = a / c + b % c;
    out[2] = sa == INT32_MIN || sc == -1 ? 0 : static_cast<std::uint32_t>(sa / sc ^ sa % sc);
    out[3] = (a << n | a >> (31 - n)) ^ static_cast<std::uint32_t>(sa >> n);
    out[4] = static_cast<std::uint32_t>(wide * c >> 32) + static_cast<std::uint32_t>(wide / c);
    out[5] = sc == -1
                 ? 1
                 : static_cast<std::uint32_t>(signed_wide % sc) ^ static_cast<std::uint32_t>((signed_wide / sc) >> 7);
    out[6] = (sa < static_cast<std::int32_t>(b) ? a : b) + (a > b ? a : b);
    out[7] = static_cast<std::uint32_t>(static_cast<std::int8_t>(a)) + static_cast<std::uint16_t>(b * c);
    std::uint32_t bits = 0;
    for (std::uint32_t rest = a; rest != 0; rest &= rest - 1)
        ++bits;
    out[8] = bits;
    std::uint8_t bytes[8];
    for (unsigned i = 0; i < 8; ++i)
        bytes[i] = static_cast<std::uint8_t>(wide >> (8 * i));
    for (unsigned i = 1; i < 8; ++i)
        for (unsigned k = i; k > 0 && bytes[k - 1] > bytes[k]; --k) {
            const std::uint8_t kept = bytes[k];
            bytes[k] = bytes[k - 1];
            bytes[k - 1] = kept;
        }
    out[9] = bytes[n & 7] | std::uint32_t{bytes[(n >> 2) & 7]} << 8 | std::uint32_t{bytes[7]} << 16;
    switch (b % 7) {
        case 0:
            out[10] = a ^ 0x5555;
            break;
        case 1:
            out[10] = a + c;
            break;
        case 2:
            out[10] = ~a;
            break;
        case 3:
            out[10] = a * 9;
            break;
        case 4:
            out[10] = b >> 3;
            break;
        default:
            out[10] = c;
    }
    out[11] = static_cast<std::uint32_t>(static_cast<std::int64_t>(sa) * sc >> 13) + (wide > c ? 3 : 5);
}

template <class T, class Word>
BOTH_SIDES inline void real(const T* in, T* out) {
    const T a = in[0], b = in[1], c = in[2], d = in[3];
    out[0] = a + b;
    out[1] = a * b - c;
    out[2] = a / b;
    out[3] = std::sqrt(a < 0 ? -a : a);
    out[4] = std::fma(a, b, c);
    out[5] = static_cast<T>(static_cast<std::int32_t>(d)) + static_cast<T>(static_cast<Word>(d < 0 ? -d : d));
    out[6] = a < b ? c : d;
    out[7] = std::floor(d) + std::trunc(d) - std::ceil(d);
    out[8] = a != a || !(b > c) ? T{1} : T{2};
    out[9] = static_cast<T>(static_cast<float>(a)) + static_cast<T>(static_cast<double>(b));
    out[10] = std::fmin(a, b) - std::fmax(c, d);
    T sum = 0;
    for (unsigned i = 0; i < 4; ++i)
        sum += in[i] * static_cast<T>(i + 1);
    out[11] = -sum;
}

}  // namespace formulas
