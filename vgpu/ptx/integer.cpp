// Whole numbers: PTX ISA, "Integer Arithmetic Instructions".
#include <algorithm>
#include <limits>
#include <type_traits>

#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
struct WiderOf;
template <>
struct WiderOf<u16> {
    using type = u32;
};
template <>
struct WiderOf<s16> {
    using type = s32;
};
template <>
struct WiderOf<u32> {
    using type = u64;
};
template <>
struct WiderOf<s32> {
    using type = s64;
};
template <>
struct WiderOf<u64> {
    using type = unsigned __int128;
};
template <>
struct WiderOf<s64> {
    using type = __int128;
};
template <class T>
using Wider = typename WiderOf<T>::type;

// Sums and products wrap around, for which they are computed without sign, and in no type that is promoted to int.
template <class T>
using Ring = std::conditional_t<sizeof(T) == 8, u64, u32>;

struct Add {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(Ring<T>(a) + Ring<T>(b));
    }
};
struct Sub {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(Ring<T>(a) - Ring<T>(b));
    }
};
struct AddSaturated {
    s32 operator()(s32 a, s32 b) const { return saturated(s64{a} + b); }
    static s32 saturated(s64 x) {
        return static_cast<s32>(std::clamp<s64>(x, std::numeric_limits<s32>::min(), std::numeric_limits<s32>::max()));
    }
};
struct SubSaturated {
    s32 operator()(s32 a, s32 b) const { return AddSaturated::saturated(s64{a} - b); }
};
struct MulLow {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(Ring<T>(a) * Ring<T>(b));
    }
};
struct MulHigh {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>((static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b)) >> (8 * sizeof(T)));
    }
};
struct MulWide {
    template <class T>
    Wider<T> operator()(T a, T b) const {
        return static_cast<Wider<T>>(static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b));
    }
};
// Division by zero gives an unspecified value (PTX ISA, "div"): all ones here, as on GPUs.
struct Div {
    template <class T>
    T operator()(T a, T b) const {
        if (b == 0)
            return static_cast<T>(-1);
        return std::is_signed_v<T> && b == static_cast<T>(-1) ? Sub{}(T{0}, a) : static_cast<T>(a / b);
    }
};
struct Rem {
    template <class T>
    T operator()(T a, T b) const {
        if (b == 0)
            return a;
        return std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
    }
};
struct Min {
    template <class T>
    T operator()(T a, T b) const {
        return a < b ? a : b;
    }
};
struct Max {
    template <class T>
    T operator()(T a, T b) const {
        return a > b ? a : b;
    }
};
struct MinRelu {
    template <class T>
    T operator()(T a, T b) const {
        return std::max<T>(std::min(a, b), 0);
    }
};
struct MaxRelu {
    template <class T>
    T operator()(T a, T b) const {
        return std::max<T>(std::max(a, b), 0);
    }
};
struct Abs {
    template <class T>
    T operator()(T a) const {
        return a < 0 ? Sub{}(T{0}, a) : a;
    }
};
struct Neg {
    template <class T>
    T operator()(T a) const {
        return Sub{}(T{0}, a);
    }
};
struct MadLow {
    template <class T>
    T operator()(T a, T b, T c) const {
        return Add{}(MulLow{}(a, b), c);
    }
};
struct MadHigh {
    template <class T>
    T operator()(T a, T b, T c) const {
        return Add{}(MulHigh{}(a, b), c);
    }
};
struct MadHighSaturated {
    s32 operator()(s32 a, s32 b, s32 c) const { return AddSaturated{}(MulHigh{}(a, b), c); }
};
struct MadWide {
    template <class T>
    Wider<T> operator()(T a, T b, Wider<T> c) const {
        return Add{}(MulWide{}(a, b), c);
    }
};
struct Sad {
    template <class T>
    T operator()(T a, T b, T c) const {
        return Add{}(c, a < b ? Sub{}(b, a) : Sub{}(a, b));
    }
};
// The product of 24 bits has 48, of which .lo are the lowest 32 and .hi the highest.
template <class T>
Wider<T> product24(T a, T b) {
    if constexpr (std::is_signed_v<T>)
        return s64{static_cast<s32>(static_cast<u32>(a) << 8) >> 8} * (static_cast<s32>(static_cast<u32>(b) << 8) >> 8);
    else
        return u64{a & 0xffffff} * (b & 0xffffff);
}
struct Mul24Low {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(product24(a, b));
    }
};
struct Mul24High {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(product24(a, b) >> 16);
    }
};
struct Mad24Low {
    template <class T>
    T operator()(T a, T b, T c) const {
        return Add{}(Mul24Low{}(a, b), c);
    }
};
struct Mad24High {
    template <class T>
    T operator()(T a, T b, T c) const {
        return Add{}(Mul24High{}(a, b), c);
    }
};

template <class T, class F>
struct Two {
    static constexpr Handler handler = binary<T, T, F>;
};
template <class T, class F>
struct One {
    static constexpr Handler handler = unary<T, T, F>;
};
template <class T, class F>
struct Three {
    static constexpr Handler handler = ternary<T, T, T, F>;
};
template <class T, class F>
struct TwoWide {
    static constexpr Handler handler = binary<Wider<T>, T, F>;
};
template <class T, class F>
struct ThreeWide {
    static constexpr Handler handler = ternary<Wider<T>, T, Wider<T>, F>;
};

template <template <class, class> class Form, class F>
Handler by_type(Type type) {
    switch (type) {
        case Type::U32:
        case Type::B32:
            return Form<u32, F>::handler;
        case Type::S32:
            return Form<s32, F>::handler;
        case Type::U16:
        case Type::B16:
            return Form<u16, F>::handler;
        case Type::S16:
            return Form<s16, F>::handler;
        default:
            break;
    }
    if constexpr (!std::is_same_v<Form<u32, F>, TwoWide<u32, F>> && !std::is_same_v<Form<u32, F>, ThreeWide<u32, F>>) {
        if (type == Type::U64 || type == Type::B64)
            return Form<u64, F>::handler;
        if (type == Type::S64)
            return Form<s64, F>::handler;
    }
    return nullptr;
}

template <template <class, class> class Form, class F>
Handler by_32(Type type) {
    return type == Type::U32 ? Form<u32, F>::handler : type == Type::S32 ? Form<s32, F>::handler : nullptr;
}

// Both halves of a register, each as 16 bits.
template <class T, class F>
void in_halves(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u16 low = static_cast<u16>(F{}(static_cast<T>(a[i]), static_cast<T>(b[i])));
        const u16 high = static_cast<u16>(F{}(static_cast<T>(a[i] >> 16), static_cast<T>(b[i] >> 16)));
        d[i] = low | u32{high} << 16;
    });
}

template <class F>
Handler of_halves(Type type) {
    return type == Type::U16x2 ? in_halves<u16, F> : in_halves<s16, F>;
}
bool is_halves(Type type) {
    return type == Type::U16x2 || type == Type::S16x2;
}

void emit(Decode& decode, Handler handler, Type type, Type last, std::size_t operands) {
    if (handler == nullptr)
        Decode::unknown("there is none of this type");
    decode.finish();
    decode.expect_operands(operands);
    const s32 d = decode.destination(0), a = decode.value(1, type);
    const s32 b = operands > 2 ? decode.value(2, type) : kNone, c = operands > 3 ? decode.value(3, last) : kNone;
    Op& op = decode.emit(handler);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
}

void decode_sum(Decode& decode, bool minus, Type type) {
    const bool saturated = decode.take("sat") && type == Type::S32;
    const Handler handler = saturated         ? minus ? binary<s32, s32, SubSaturated> : binary<s32, s32, AddSaturated>
                                    : is_halves(type) ? minus ? of_halves<Sub>(type) : of_halves<Add>(type)
                                    : minus ? by_type<Two, Sub>(type)
                                              : by_type<Two, Add>(type);
    emit(decode, handler, type, type, 3);
}

void decode_product(Decode& decode, Type type) {
    if (decode.take("wide"))
        emit(decode, by_type<TwoWide, MulWide>(type), type, type, 3);
    else if (decode.take("hi"))
        emit(decode, by_type<Two, MulHigh>(type), type, type, 3);
    else if (decode.take("lo"))
        emit(decode, by_type<Two, MulLow>(type), type, type, 3);
    else
        Decode::unknown("it needs .lo, .hi or .wide");
}

void decode_mad(Decode& decode, Type type) {
    if (decode.take("wide"))
        emit(decode, by_type<ThreeWide, MadWide>(type), type, Type::B64, 4);
    else if (decode.take("hi"))
        emit(decode, decode.take("sat") ? ternary<s32, s32, s32, MadHighSaturated> : by_type<Three, MadHigh>(type),
             type, type, 4);
    else if (decode.take("lo"))
        emit(decode, by_type<Three, MadLow>(type), type, type, 4);
    else
        Decode::unknown("it needs .lo, .hi or .wide");
}

void decode_24(Decode& decode, bool adds, Type type) {
    const bool high = decode.take("hi");
    if (!high && !decode.take("lo"))
        Decode::unknown("it needs .lo or .hi");
    if (adds)
        emit(decode, high ? by_32<Three, Mad24High>(type) : by_32<Three, Mad24Low>(type), type, type, 4);
    else
        emit(decode, high ? by_32<Two, Mul24High>(type) : by_32<Two, Mul24Low>(type), type, type, 3);
}

void decode_extreme(Decode& decode, bool most, Type type) {
    const bool relu = decode.take("relu");
    const Handler handler = is_halves(type) ? relu   ? most ? of_halves<MaxRelu>(type) : of_halves<MinRelu>(type)
                                                : most ? of_halves<Max>(type)
                                                     : of_halves<Min>(type)
                            : relu ? most ? by_type<Two, MaxRelu>(type) : by_type<Two, MinRelu>(type)
                            : most ? by_type<Two, Max>(type)
                                            : by_type<Two, Min>(type);
    emit(decode, handler, type, type, 3);
}

bool is_integer(const Instruction& instruction) {
    for (const std::string_view word : instruction.modifiers) {
        const Type type = type_of(word);
        if (is_float(type) || word == "cc")
            return false;
        if (type != Type::None)
            return true;
    }
    return false;
}

}  // namespace

bool decode_integer(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    static constexpr std::string_view kNames[] = {"add", "sub", "mul", "mad", "mul24", "mad24", "div",
                                                  "rem", "min", "max", "abs", "neg",   "sad"};
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames) || !is_integer(decode.instruction))
        return false;
    const Type type = decode.take_type();
    if (name == "add" || name == "sub")
        decode_sum(decode, name == "sub", type);
    else if (name == "mul")
        decode_product(decode, type);
    else if (name == "mad")
        decode_mad(decode, type);
    else if (name == "mul24" || name == "mad24")
        decode_24(decode, name == "mad24", type);
    else if (name == "div")
        emit(decode, by_type<Two, Div>(type), type, type, 3);
    else if (name == "rem")
        emit(decode, by_type<Two, Rem>(type), type, type, 3);
    else if (name == "min" || name == "max")
        decode_extreme(decode, name == "max", type);
    else if (name == "abs")
        emit(decode, by_type<One, Abs>(type), type, type, 2);
    else if (name == "neg")
        emit(decode, by_type<One, Neg>(type), type, type, 2);
    else
        emit(decode, by_type<Three, Sad>(type), type, type, 4);
    return true;
}

}  // namespace vgpu::ptx
