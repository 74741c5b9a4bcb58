// Reductions, one element at a time: what each thread of a kernel, or of its counterpart on virtual GPUs, does. There
// is no MPI and no CUDA here, only trivially copyable data that a kernel takes by value.
#pragma once

#include <cstdint>
#include <type_traits>

#include "datatype/narrow_float.hpp"

namespace swy::datatype {

// Operators in the order of Operator (element.hpp), without those that no kernel has.
enum class Combine : std::uint32_t {
    kSum,
    kProd,
    kMin,
    kMax,
    kLand,
    kLor,
    kLxor,
    kBand,
    kBor,
    kBxor,
    kMinloc,
    kMaxloc
};

// inout[i] = in[i] op inout[i], as MPI_Reduce_local has it.
struct ReduceWork {
    std::uint64_t in, inout;  // addresses
    std::uint64_t count;
    Combine op;
};

// MPI's pair types as in C: a value and its location.
template <typename Value, typename Location>
struct Pair {
    Value value;
    Location location;
};

template <typename Part>
struct Complex {
    Part real, imaginary;
};

// Integers wrap around on overflow, as MPI implementations have it; C leaves this undefined for signed ones.
template <typename T>
using Unsigned = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
SWY_BOTH_SIDES inline void combine(Combine op, T in, T& inout) {
    const auto a = static_cast<Unsigned<T>>(in), b = static_cast<Unsigned<T>>(inout);
    switch (op) {
        case Combine::kSum:
            inout = static_cast<T>(a + b);
            break;
        case Combine::kProd:
            inout = static_cast<T>(a * b);
            break;
        case Combine::kMin:
            inout = in < inout ? in : inout;
            break;
        case Combine::kMax:
            inout = in > inout ? in : inout;
            break;
        case Combine::kLand:
            inout = static_cast<T>(in != 0 && inout != 0);
            break;
        case Combine::kLor:
            inout = static_cast<T>(in != 0 || inout != 0);
            break;
        case Combine::kLxor:
            inout = static_cast<T>((in != 0) != (inout != 0));
            break;
        case Combine::kBand:
            inout = static_cast<T>(a & b);
            break;
        case Combine::kBor:
            inout = static_cast<T>(a | b);
            break;
        case Combine::kBxor:
            inout = static_cast<T>(a ^ b);
            break;
        default:
            break;
    }
}

template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
SWY_BOTH_SIDES inline void combine(Combine op, T in, T& inout) {
    switch (op) {
        case Combine::kSum:
            inout = in + inout;
            break;
        case Combine::kProd:
            inout = in * inout;
            break;
        case Combine::kMin:
            inout = in < inout ? in : inout;
            break;
        case Combine::kMax:
            inout = in > inout ? in : inout;
            break;
        default:
            break;
    }
}

// Computes in float, in which one operation on numbers of so few bits is exact enough to be rounded once.
template <typename Bits, int kExponent, int kMantissa>
SWY_BOTH_SIDES inline void combine(Combine op, NarrowFloat<Bits, kExponent, kMantissa> in,
                                   NarrowFloat<Bits, kExponent, kMantissa>& inout) {
    using Narrow = NarrowFloat<Bits, kExponent, kMantissa>;
    float result = Narrow::wide(inout);
    combine(op, Narrow::wide(in), result);
    inout = Narrow::narrow(result);
}

namespace detail {

template <typename T>
SWY_BOTH_SIDES inline bool is_nan(T x) {
    return x != x;
}
template <typename T>
SWY_BOTH_SIDES inline bool is_infinite(T x) {
    return !is_nan(x) && is_nan(x - x);
}
template <typename T>
SWY_BOTH_SIDES inline T with_sign_of(T magnitude, T x) {
    using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    return same_bits<Word>(x) >> (8 * sizeof(T) - 1) != 0 ? -magnitude : magnitude;
}
template <typename T>
SWY_BOTH_SIDES inline T infinity() {
    if constexpr (sizeof(T) == 8)
        return same_bits<T>(std::uint64_t{0x7ff} << 52);
    else
        return same_bits<T>(std::uint32_t{0xff} << 23);
}
// 1 for an infinite part, 0 for another, with its sign.
template <typename T>
SWY_BOTH_SIDES inline Complex<T> boxed(Complex<T> x) {
    return {with_sign_of(is_infinite(x.real) ? T{1} : T{0}, x.real),
            with_sign_of(is_infinite(x.imaginary) ? T{1} : T{0}, x.imaginary)};
}
template <typename T>
SWY_BOTH_SIDES inline Complex<T> without_nans(Complex<T> x) {
    return {is_nan(x.real) ? with_sign_of(T{0}, x.real) : x.real,
            is_nan(x.imaginary) ? with_sign_of(T{0}, x.imaginary) : x.imaginary};
}

}  // namespace detail

// Multiplies as C does (C11, annex G.5.1): where an infinite factor has made both parts of the product NaN, the product
// is infinite all the same.
template <typename T>
SWY_BOTH_SIDES inline Complex<T> product(Complex<T> x, Complex<T> y) {
    using detail::is_infinite;
    const T rr = x.real * y.real, ii = x.imaginary * y.imaginary, ri = x.real * y.imaginary, ir = x.imaginary * y.real;
    const Complex<T> plain{rr - ii, ri + ir};
    if (!detail::is_nan(plain.real) || !detail::is_nan(plain.imaginary))
        return plain;
    const bool infinite_x = is_infinite(x.real) || is_infinite(x.imaginary);
    const bool infinite_y = is_infinite(y.real) || is_infinite(y.imaginary);
    if (!infinite_x && !infinite_y && !is_infinite(rr) && !is_infinite(ii) && !is_infinite(ri) && !is_infinite(ir))
        return plain;
    x = detail::without_nans(infinite_x ? detail::boxed(x) : x);
    y = detail::without_nans(infinite_y ? detail::boxed(y) : y);
    const T infinity = detail::infinity<T>();
    return {infinity * (x.real * y.real - x.imaginary * y.imaginary),
            infinity * (x.real * y.imaginary + x.imaginary * y.real)};
}

template <typename T>
SWY_BOTH_SIDES inline void combine(Combine op, Complex<T> in, Complex<T>& inout) {
    if (op == Combine::kSum)
        inout = {in.real + inout.real, in.imaginary + inout.imaginary};
    else if (op == Combine::kProd)
        inout = product(in, inout);
}

// Takes the lower location where values are equal. Bytes between value and location are left unchanged.
template <typename Value, typename Location>
SWY_BOTH_SIDES inline void combine(Combine op, Pair<Value, Location> in, Pair<Value, Location>& inout) {
    if (in.value == inout.value) {
        inout.location = in.location < inout.location ? in.location : inout.location;
    } else if (op == Combine::kMinloc ? in.value < inout.value : in.value > inout.value) {
        inout.value = in.value;
        inout.location = in.location;
    }
}

using FloatInt = Pair<float, std::int32_t>;
using DoubleInt = Pair<double, std::int32_t>;
using LongInt = Pair<std::int64_t, std::int32_t>;
using ShortInt = Pair<std::int16_t, std::int32_t>;
using IntInt = Pair<std::int32_t, std::int32_t>;
using FloatFloat = Pair<float, float>;
using DoubleDouble = Pair<double, double>;

#define SWY_REDUCE_TYPE(Name, name, Type) k##Name,
enum class ReduceType : std::uint8_t {
#include "datatype/reduce_types.def"
};
#undef SWY_REDUCE_TYPE

}  // namespace swy::datatype
