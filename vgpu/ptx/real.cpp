// Numbers of 32 and 64 bits: PTX ISA, "Floating Point Instructions". Every result is that of IEEE 754, as the host's
// arithmetic gives it in the rounding mode that the instruction names; approximations are as exact as the host's.
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/narrow.hpp"

namespace vgpu::ptx {
namespace {

struct Add {
    template <class T>
    T operator()(T a, T b) const {
        return a + b;
    }
};
struct Sub {
    template <class T>
    T operator()(T a, T b) const {
        return a - b;
    }
};
struct Mul {
    template <class T>
    T operator()(T a, T b) const {
        return a * b;
    }
};
struct Div {
    template <class T>
    T operator()(T a, T b) const {
        return a / b;
    }
};
struct Fma {
    template <class T>
    T operator()(T a, T b, T c) const {
        return std::fma(a, b, c);
    }
};
struct Rcp {
    template <class T>
    T operator()(T a) const {
        return T{1} / a;
    }
};
struct Sqrt {
    template <class T>
    T operator()(T a) const {
        return std::sqrt(a);
    }
};
struct Rsqrt {
    template <class T>
    T operator()(T a) const {
        return T{1} / std::sqrt(a);
    }
};
struct Sin {
    template <class T>
    T operator()(T a) const {
        return std::sin(a);
    }
};
struct Cos {
    template <class T>
    T operator()(T a) const {
        return std::cos(a);
    }
};
struct Lg2 {
    template <class T>
    T operator()(T a) const {
        return std::log2(a);
    }
};
struct Ex2 {
    template <class T>
    T operator()(T a) const {
        return std::exp2(a);
    }
};
struct Tanh {
    template <class T>
    T operator()(T a) const {
        return std::tanh(a);
    }
};
struct Min {
    template <class T>
    T operator()(T a, T b) const {
        if (a != a || b != b)
            return a != a ? b : a;
        return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;  // -0 is less than +0
    }
};
struct Max {
    template <class T>
    T operator()(T a, T b) const {
        if (a != a || b != b)
            return a != a ? b : a;
        return a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
    }
};
template <class F>
struct WithNan {
    template <class T>
    T operator()(T a, T b) const {
        return a != a ? a : b != b ? b : F{}(a, b);
    }
};
template <class F>
struct XorSigned {
    template <class T>
    T operator()(T a, T b) const {
        const T sign = std::copysign(T{1}, a) * std::copysign(T{1}, b);
        return std::copysign(F{}(std::fabs(a), std::fabs(b)), sign);
    }
};
struct Abs {
    template <class T>
    T operator()(T a) const {
        return std::fabs(a);
    }
};
struct Neg {
    template <class T>
    T operator()(T a) const {
        return -a;
    }
};
struct CopySign {
    template <class T>
    T operator()(T a, T b) const {
        return std::copysign(b, a);
    }
};

template <class T, class F, unsigned kOperands>
void plain(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = kOperands > 1 ? warp.get(op.b) : a, *c = kOperands > 2 ? warp.get(op.c) : a;
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        if constexpr (kOperands == 1)
            d[i] = to_slot(canonical(F{}(from_slot<T>(a[i]))));
        else if constexpr (kOperands == 2)
            d[i] = to_slot(canonical(F{}(from_slot<T>(a[i]), from_slot<T>(b[i]))));
        else
            d[i] = to_slot(canonical(F{}(from_slot<T>(a[i]), from_slot<T>(b[i]), from_slot<T>(c[i]))));
    });
}

template <class T, class F, unsigned kOperands>
void modified(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = kOperands > 1 ? warp.get(op.b) : a, *c = kOperands > 2 ? warp.get(op.c) : a;
    u64* d = warp.at(op.d);
    const RoundingMode mode(op.rounding);
    const auto in = [&](u64 bits) { return op.ftz ? flushed(from_slot<T>(bits)) : from_slot<T>(bits); };
    lanes(mask, [&](unsigned i) {
        T result;
        if constexpr (kOperands == 1)
            result = F{}(in(a[i]));
        else if constexpr (kOperands == 2)
            result = F{}(in(a[i]), in(b[i]));
        else
            result = F{}(in(a[i]), in(b[i]), in(c[i]));
        result = canonical(op.ftz ? flushed(result) : result);
        d[i] = to_slot(op.saturate ? saturated(result) : result);
    });
}

template <class F, unsigned kOperands>
void emit(Decode& decode, Type type) {
    if (type != Type::F32 && type != Type::F64)
        Decode::unknown("there is none of this type");
    const Rounding rounding = decode.take_rounding();
    const bool ftz = decode.take("ftz"), saturate = decode.take("sat");
    decode.finish();
    decode.expect_operands(kOperands + 1);
    s32 operands[4] = {decode.destination(0), kNone, kNone, kNone};
    for (unsigned i = 1; i <= kOperands; ++i)
        operands[i] = decode.value(i, type);
    const bool modifies = rounding != Rounding::Nearest || ftz || saturate;
    Op& op = decode.emit(type == Type::F64 ? modifies ? modified<double, F, kOperands> : plain<double, F, kOperands>
                         : modifies ? modified<float, F, kOperands>
                                           : plain<float, F, kOperands>);
    op.d = operands[0];
    op.a = operands[1];
    op.b = operands[2];
    op.c = operands[3];
    op.rounding = rounding;
    op.ftz = ftz;
    op.saturate = saturate;
}

template <class F>
void emit_extreme(Decode& decode, Type type) {
    const bool nan = decode.take("NaN"), sign = decode.take("xorsign"), absolute = decode.take("abs");
    if (sign != absolute)
        Decode::unknown(".xorsign and .abs go together");
    if (nan && sign)
        emit<WithNan<XorSigned<F>>, 2>(decode, type);
    else if (nan)
        emit<WithNan<F>, 2>(decode, type);
    else if (sign)
        emit<XorSigned<F>, 2>(decode, type);
    else
        emit<F, 2>(decode, type);
}

// Sign bits are changed for NaNs too, which are else as they were.
template <class T, class F, unsigned kOperands>
void sign_only(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = kOperands > 1 ? warp.get(op.b) : a;
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const T x = op.ftz ? flushed(from_slot<T>(a[i])) : from_slot<T>(a[i]);
        if constexpr (kOperands == 1)
            d[i] = to_slot(F{}(x));
        else
            d[i] = to_slot(F{}(x, from_slot<T>(b[i])));
    });
}

template <class F, unsigned kOperands>
void emit_sign(Decode& decode, Type type) {
    const bool ftz = decode.take("ftz");
    decode.finish();
    decode.expect_operands(kOperands + 1);
    const s32 d = decode.destination(0), a = decode.value(1, type), b = kOperands > 1 ? decode.value(2, type) : kNone;
    Op& op = decode.emit(type == Type::F64 ? sign_only<double, F, kOperands> : sign_only<float, F, kOperands>);
    op.d = d;
    op.a = a;
    op.b = b;
    op.ftz = ftz;
}

struct Finite {
    template <class T>
    bool operator()(T x) const {
        return std::isfinite(x);
    }
};
struct Infinite {
    template <class T>
    bool operator()(T x) const {
        return std::isinf(x);
    }
};
struct Number {
    template <class T>
    bool operator()(T x) const {
        return x == x;
    }
};
struct NotNumber {
    template <class T>
    bool operator()(T x) const {
        return x != x;
    }
};
struct Normal {
    template <class T>
    bool operator()(T x) const {
        return std::isnormal(x);
    }
};
struct Subnormal {
    template <class T>
    bool operator()(T x) const {
        return std::fpclassify(x) == FP_SUBNORMAL;
    }
};

template <class F>
Handler test(Type type) {
    return type == Type::F64 ? unary<bool, double, F> : unary<bool, float, F>;
}

void decode_testp(Decode& decode, Type type) {
    const Handler handler = decode.take("finite")       ? test<Finite>(type)
                            : decode.take("infinite")   ? test<Infinite>(type)
                            : decode.take("number")     ? test<Number>(type)
                            : decode.take("notanumber") ? test<NotNumber>(type)
                            : decode.take("normal")     ? test<Normal>(type)
                            : decode.take("subnormal")  ? test<Subnormal>(type)
                                                        : nullptr;
    if (handler == nullptr)
        Decode::unknown("there is no such test");
    decode.finish();
    const s32 d = decode.destination(0), a = decode.value(1, type);
    Op& op = decode.emit(handler);
    op.d = d;
    op.a = a;
}

Type real_type(const Instruction& instruction) {
    for (const std::string_view word : instruction.modifiers) {
        const Type type = type_of(word);
        if (type != Type::None)
            return type == Type::F32 || type == Type::F64 ? type : Type::None;
    }
    return Type::None;
}

bool decode_plain(Decode& decode, std::string_view name, Type type) {
    if (name == "add")
        emit<Add, 2>(decode, type);
    else if (name == "sub")
        emit<Sub, 2>(decode, type);
    else if (name == "mul")
        emit<Mul, 2>(decode, type);
    else if (name == "fma" || name == "mad")
        emit<Fma, 3>(decode, type);
    else if (name == "min")
        emit_extreme<Min>(decode, type);
    else if (name == "max")
        emit_extreme<Max>(decode, type);
    else if (name == "abs")
        emit_sign<Abs, 1>(decode, type);
    else if (name == "neg")
        emit_sign<Neg, 1>(decode, type);
    else if (name == "copysign")
        emit_sign<CopySign, 2>(decode, type);
    else if (name == "testp")
        decode_testp(decode, type);
    else
        return false;
    return true;
}

}  // namespace

bool decode_float(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    const Type type = real_type(decode.instruction);
    if (type == Type::None)
        return false;
    static constexpr std::string_view kNames[] = {"add", "sub", "mul", "fma",      "mad",  "min",
                                                  "max", "abs", "neg", "copysign", "testp"};
    for (const std::string_view known : kNames)
        if (name == known)
            return decode_plain(decode, name, decode.take_type());
    return false;
}

bool decode_approximate(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    const Type type = real_type(decode.instruction);
    static constexpr std::string_view kNames[] = {"div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"};
    bool known = false;
    for (const std::string_view one : kNames)
        known |= name == one;
    if (!known || type == Type::None)
        return false;
    decode.take_type();
    if (!decode.take("approx"))
        decode.take("full");
    if (name == "div")
        emit<Div, 2>(decode, type);
    else if (name == "rcp")
        emit<Rcp, 1>(decode, type);
    else if (name == "sqrt")
        emit<Sqrt, 1>(decode, type);
    else if (name == "rsqrt")
        emit<Rsqrt, 1>(decode, type);
    else if (name == "sin")
        emit<Sin, 1>(decode, type);
    else if (name == "cos")
        emit<Cos, 1>(decode, type);
    else if (name == "lg2")
        emit<Lg2, 1>(decode, type);
    else if (name == "ex2")
        emit<Ex2, 1>(decode, type);
    else
        emit<Tanh, 1>(decode, type);
    return true;
}

}  // namespace vgpu::ptx
