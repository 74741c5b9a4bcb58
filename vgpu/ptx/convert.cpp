// cvt: PTX ISA, "cvt" and "cvt.pack".
#include <algorithm>
#include <limits>
#include <utility>

#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/narrow.hpp"

namespace vgpu::ptx {
namespace {

template <class T>
T integral(T x, Rounding rounding) {
    switch (rounding) {
        case Rounding::Zero:
            return std::trunc(x);
        case Rounding::Down:
            return std::floor(x);
        case Rounding::Up:
            return std::ceil(x);
        default:
            return std::nearbyint(x);
    }
}

// Out of range is clamped. NaN is 0, but for 64 bits on either side the highest bit alone (PTX ISA, "cvt").
template <class D, class A>
D to_integer(A x, Rounding rounding) {
    if (x != x)
        return sizeof(A) == 8 || sizeof(D) == 8 ? static_cast<D>(u64{1} << (8 * sizeof(D) - 1)) : D{0};
    x = integral(x, rounding);
    constexpr A kEnd = static_cast<A>(u64{1} << (8 * sizeof(D) - 1)) * (std::is_signed_v<D> ? 1 : 2);
    if (x >= kEnd)
        return std::numeric_limits<D>::max();
    if (x < (std::is_signed_v<D> ? -kEnd : A{0}))
        return std::numeric_limits<D>::min();
    return static_cast<D>(x);
}

template <class D, class A>
D to_integer_clamped(A x) {
    if (std::cmp_less(x, std::numeric_limits<D>::min()))
        return std::numeric_limits<D>::min();
    return std::cmp_greater(x, std::numeric_limits<D>::max()) ? std::numeric_limits<D>::max() : static_cast<D>(x);
}

template <class D, class A>
void convert(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    const bool from_float = std::is_floating_point_v<A>, to_float = std::is_floating_point_v<D>;
    const RoundingMode mode(to_float ? op.rounding : Rounding::Nearest);
    lanes(mask, [&](unsigned i) {
        A x = from_slot<A>(a[i]);
        if constexpr (from_float)
            x = op.ftz ? flushed(x) : x;
        if constexpr (from_float && !to_float) {
            d[i] = to_slot(to_integer<D>(x, op.rounding));
        } else if constexpr (!from_float && !to_float) {
            d[i] = to_slot(op.saturate ? to_integer_clamped<D>(x) : static_cast<D>(x));
        } else {
            D y = static_cast<D>(x);
            if constexpr (from_float && !std::is_same_v<A, D>)
                y = canonical(op.ftz ? flushed(y) : y);
            d[i] = to_slot(op.saturate ? saturated(y) : y);
        }
    });
}

template <class T>
void round_whole(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        T x = from_slot<T>(a[i]);
        x = canonical(integral(op.ftz ? flushed(x) : x, op.rounding));
        d[i] = to_slot(op.saturate ? saturated(x) : x);
    });
}

template <class D>
Handler from(Type type) {
    switch (type) {
        case Type::U8:
        case Type::B8:
            return convert<D, u8>;
        case Type::U16:
        case Type::B16:
            return convert<D, u16>;
        case Type::U32:
        case Type::B32:
            return convert<D, u32>;
        case Type::U64:
        case Type::B64:
            return convert<D, u64>;
        case Type::S8:
            return convert<D, s8>;
        case Type::S16:
            return convert<D, s16>;
        case Type::S32:
            return convert<D, s32>;
        case Type::S64:
            return convert<D, s64>;
        case Type::F32:
            return convert<D, float>;
        case Type::F64:
            return convert<D, double>;
        default:
            return nullptr;
    }
}

Handler wide(Type to, Type type) {
    switch (to) {
        case Type::U8:
        case Type::B8:
            return from<u8>(type);
        case Type::U16:
        case Type::B16:
            return from<u16>(type);
        case Type::U32:
        case Type::B32:
            return from<u32>(type);
        case Type::U64:
        case Type::B64:
            return from<u64>(type);
        case Type::S8:
            return from<s8>(type);
        case Type::S16:
            return from<s16>(type);
        case Type::S32:
            return from<s32>(type);
        case Type::S64:
            return from<s64>(type);
        case Type::F32:
            return from<float>(type);
        case Type::F64:
            return from<double>(type);
        default:
            return nullptr;
    }
}

const Format* format_of(Type type) {
    switch (type) {
        case Type::F16:
        case Type::F16x2:
            return &kHalf;
        case Type::BF16:
        case Type::BF16x2:
            return &kBrainHalf;
        case Type::E4M3x2:
            return &kE4M3;
        case Type::E5M2x2:
            return &kE5M2;
        default:
            return nullptr;
    }
}

// A whole number as a double that rounds to few bits as the number does: what is lost is kept as one low bit.
double sticky(u64 magnitude) {
    return static_cast<double>(
        magnitude >> 53 != 0 ? (magnitude & ~u64{0xfff}) | ((magnitude & 0xfff) != 0 ? 0x1000 : 0) : magnitude);
}

double read_number(Type type, u64 bits, bool ftz) {
    if (const Format* format = format_of(type))
        return widen(*format, static_cast<u32>(bits & ((1u << format->bits()) - 1)));
    if (type == Type::F32)
        return ftz ? flushed(from_slot<float>(bits)) : from_slot<float>(bits);
    if (type == Type::F64)
        return from_slot<double>(bits);
    const unsigned unused = 64 - 8 * bytes_of(type);
    const s64 x =
        is_signed(type) ? static_cast<s64>(bits << unused) >> unused : static_cast<s64>(bits << unused >> unused);
    return is_signed(type) && x < 0 ? -sticky(0 - static_cast<u64>(x)) : sticky(static_cast<u64>(x));
}

u64 write_number(Type type, double x, const Op& op) {
    if (op.saturate && op.count == 0)
        x = saturated(x);
    if (op.relu && x == x)
        x = x > 0 ? x : 0.0;
    if (const Format* format = format_of(type))
        return narrow(*format, x, op.rounding, op.saturate && op.count != 0);
    if (type == Type::F32)
        return to_slot(canonical(static_cast<float>(x)));
    if (type == Type::F64)
        return to_slot(x);
    if (x != x)
        return type == Type::S64 || type == Type::U64 ? u64{1} << 63 : 0;
    const unsigned bits = 8 * bytes_of(type);
    const s64 value = to_integer<s64>(x, op.rounding);
    if (is_signed(type))
        return to_slot(bits == 64 ? value
                                  : std::clamp<s64>(value, -(s64{1} << (bits - 1)), (s64{1} << (bits - 1)) - 1));
    return bits == 64 ? static_cast<u64>(std::max<s64>(value, 0))
                      : static_cast<u64>(std::clamp<s64>(value, 0, (s64{1} << bits) - 1));
}

// Numbers of few bits go by way of double, which has room for all of them. `detail` is the type made, `target` the type
// read, `count` 1 for .satfinite.
void convert_narrow(Warp& warp, const Op& op, Mask mask) {
    const Type to = static_cast<Type>(op.detail), type = static_cast<Type>(op.target);
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        double x = read_number(type, a[i], op.ftz);
        if (to == type && op.immediate != 0)
            x = integral(x, op.rounding);
        d[i] = write_number(to, x, op);
    });
}

// Two numbers made of two registers, the first of which is the higher half; or of the halves of one register.
void convert_pair(Warp& warp, const Op& op, Mask mask) {
    const Type to = static_cast<Type>(op.detail), type = static_cast<Type>(op.target);
    const unsigned made = 4 * bytes_of(to), read = op.b == kNone ? 4 * bytes_of(type) : 0;
    const u64 *a = warp.get(op.a), *b = op.b == kNone ? a : warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u64 high = write_number(to, read_number(type, a[i] >> read, op.ftz), op);
        d[i] = high << made | write_number(to, read_number(type, b[i], op.ftz), op);
    });
}

// .tf32 is a .f32 whose low 13 bits are 0.
void convert_tf32(Warp& warp, const Op& op, Mask mask) {
    static constexpr Format kTf32{8, 10};
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        double x = from_slot<float>(a[i]);
        x = op.relu && x < 0 ? 0.0 : x;
        d[i] = x != x ? 0x7fffffff : u64{narrow(kTf32, x, op.rounding, op.saturate)} << 13;
    });
}

bool is_pair(Type type) {
    return type == Type::F16x2 || type == Type::BF16x2 || type == Type::E4M3x2 || type == Type::E5M2x2;
}

struct Wanted {
    Rounding rounding;
    bool rounds_whole, ftz, saturate, finite, relu;
};

void fill(Op& op, const Wanted& wanted) {
    op.rounding = wanted.rounding;
    op.ftz = wanted.ftz;
    op.saturate = wanted.saturate || wanted.finite;
    op.relu = wanted.relu;
}

void decode_narrow(Decode& decode, Type to, Type type, const Wanted& wanted) {
    const bool pair = is_pair(to);
    decode.expect_operands(pair && !is_pair(type) ? 3 : 2);
    const s32 d = decode.destination(0), a = decode.value(1, type),
              b = decode.operands() > 2 ? decode.value(2, type) : kNone;
    Op& op = decode.emit(to == Type::TF32 ? convert_tf32 : pair ? convert_pair : convert_narrow);
    op.d = d;
    op.a = a;
    op.b = b;
    op.detail = static_cast<u8>(to);
    op.target = static_cast<u32>(type);
    op.count = wanted.finite;
    op.immediate = wanted.rounds_whole;
    fill(op, wanted);
}

void decode_wide(Decode& decode, Type to, Type type, const Wanted& wanted) {
    decode.expect_operands(2);
    const bool whole = to == type && is_float(to) && wanted.rounds_whole;
    const Handler handler = whole ? to == Type::F32 ? round_whole<float> : round_whole<double> : wide(to, type);
    if (handler == nullptr)
        Decode::unknown("there is none between these types");
    const s32 d = decode.destination(0), a = decode.value(1, type);
    Op& op = decode.emit(handler);
    op.d = d;
    op.a = a;
    fill(op, wanted);
}

}  // namespace

bool decode_convert(Decode& decode) {
    if (decode.instruction.opcode != "cvt")
        return false;
    if (decode.take("pack"))
        Decode::unknown("cvt.pack is not known");
    Wanted wanted{};
    for (const std::string_view word : {"rni", "rzi", "rmi", "rpi"})
        for (const std::string_view given : decode.instruction.modifiers)
            wanted.rounds_whole |= given == word;
    wanted.rounding = decode.take_rounding();
    wanted.ftz = decode.take("ftz");
    wanted.saturate = decode.take("sat");
    wanted.finite = decode.take("satfinite");
    wanted.relu = decode.take("relu");
    const Type to = decode.take_type(), type = decode.take_type();
    decode.finish();
    const bool narrow = format_of(to) != nullptr || format_of(type) != nullptr || to == Type::TF32;
    if (narrow)
        decode_narrow(decode, to, type, wanted);
    else
        decode_wide(decode, to, type, wanted);
    return true;
}

}  // namespace vgpu::ptx
