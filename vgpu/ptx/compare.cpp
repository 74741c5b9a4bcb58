// setp, set and slct: PTX ISA, "Comparison and Selection Instructions".
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/narrow.hpp"

namespace vgpu::ptx {
namespace {

struct Equal {
    template <class T>
    bool operator()(T a, T b) const {
        return a == b;
    }
};
struct NotEqual {
    template <class T>
    bool operator()(T a, T b) const {
        return a < b || a > b;
    }
};
struct Less {
    template <class T>
    bool operator()(T a, T b) const {
        return a < b;
    }
};
struct LessEqual {
    template <class T>
    bool operator()(T a, T b) const {
        return a <= b;
    }
};
struct Greater {
    template <class T>
    bool operator()(T a, T b) const {
        return a > b;
    }
};
struct GreaterEqual {
    template <class T>
    bool operator()(T a, T b) const {
        return a >= b;
    }
};
struct Numbers {
    template <class T>
    bool operator()(T a, T b) const {
        return a == a && b == b;
    }
};
template <class F>
struct Not {
    template <class T>
    bool operator()(T a, T b) const {
        return !F{}(a, b);
    }
};

// Numbers of 16 bits as they lie in a register; in the high half where kShift is 16.
template <const Format& kFormat, unsigned kShift, class F>
void compare_narrow(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        d[i] = F{}(widen(kFormat, static_cast<u16>(a[i] >> kShift)), widen(kFormat, static_cast<u16>(b[i] >> kShift)));
    });
}

template <class T, class F>
void compare_flushed(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = F{}(flushed(from_slot<T>(a[i])), flushed(from_slot<T>(b[i]))); });
}

template <class F>
Handler by_float(Type type, bool ftz, bool high) {
    switch (type) {
        case Type::F32:
            return ftz ? compare_flushed<float, F> : binary<bool, float, F>;
        case Type::F64:
            return binary<bool, double, F>;
        case Type::F16:
        case Type::F16x2:
            return high ? compare_narrow<kHalf, 16, F> : compare_narrow<kHalf, 0, F>;
        case Type::BF16:
        case Type::BF16x2:
            return high ? compare_narrow<kBrainHalf, 16, F> : compare_narrow<kBrainHalf, 0, F>;
        default:
            return nullptr;
    }
}

template <class F>
Handler by_integer(Type type, bool as_unsigned) {
    switch (type) {
        case Type::B16:
        case Type::U16:
            return binary<bool, u16, F>;
        case Type::B32:
        case Type::U32:
            return binary<bool, u32, F>;
        case Type::B64:
        case Type::U64:
            return binary<bool, u64, F>;
        case Type::S16:
            return as_unsigned ? binary<bool, u16, F> : binary<bool, s16, F>;
        case Type::S32:
            return as_unsigned ? binary<bool, u32, F> : binary<bool, s32, F>;
        case Type::S64:
            return as_unsigned ? binary<bool, u64, F> : binary<bool, s64, F>;
        default:
            return nullptr;
    }
}

Handler comparison(Decode& decode, std::string_view name, Type type, bool ftz, bool high) {
    if (is_float(type)) {
        const auto by = [&]<class F>(F) { return by_float<F>(type, ftz, high); };
        return name == "eq"    ? by(Equal{})
               : name == "ne"  ? by(NotEqual{})
               : name == "lt"  ? by(Less{})
               : name == "le"  ? by(LessEqual{})
               : name == "gt"  ? by(Greater{})
               : name == "ge"  ? by(GreaterEqual{})
               : name == "equ" ? by(Not<NotEqual>{})
               : name == "neu" ? by(Not<Equal>{})
               : name == "ltu" ? by(Not<GreaterEqual>{})
               : name == "leu" ? by(Not<Greater>{})
               : name == "gtu" ? by(Not<LessEqual>{})
               : name == "geu" ? by(Not<Less>{})
               : name == "num" ? by(Numbers{})
               : name == "nan" ? by(Not<Numbers>{})
                               : nullptr;
    }
    const auto by = [&]<class F>(F, bool as_unsigned) { return by_integer<F>(type, as_unsigned); };
    const Handler handler = name == "eq"   ? by(Equal{}, false)
                            : name == "ne" ? by(NotEqual{}, false)
                            : name == "lt" ? by(Less{}, false)
                            : name == "le" ? by(LessEqual{}, false)
                            : name == "gt" ? by(Greater{}, false)
                            : name == "ge" ? by(GreaterEqual{}, false)
                            : name == "lo" ? by(Less{}, true)
                            : name == "ls" ? by(LessEqual{}, true)
                            : name == "hi" ? by(Greater{}, true)
                            : name == "hs" ? by(GreaterEqual{}, true)
                                           : nullptr;
    if (handler == nullptr)
        decode.unknown("there is no such comparison");
    return handler;
}

struct And {
    bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
    bool operator()(bool a, bool b) const { return a || b; }
};
struct Xor {
    bool operator()(bool a, bool b) const { return a != b; }
};
struct Invert {
    bool operator()(bool a) const { return !a; }
};
struct Identity {
    bool operator()(bool a) const { return a; }
};
// What set makes of a truth.
struct AllOnes {
    u32 operator()(bool a) const { return a ? ~0u : 0; }
};
struct OneFloat {
    float operator()(bool a) const { return a ? 1.0f : 0.0f; }
};
struct OneHalf {
    u16 operator()(bool a) const { return a ? 0x3c00 : 0; }
};
struct OneBrainHalf {
    u16 operator()(bool a) const { return a ? 0x3f80 : 0; }
};

bool predicate_of(u64 bits) {
    return (bits & 1) != 0;
}

template <class F>
void combine(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = F{}(predicate_of(a[i]), predicate_of(b[i])); });
}
template <class D, class F>
void convert(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = to_slot<D>(F{}(predicate_of(a[i]))); });
}

Op& emit(Decode& decode, Handler handler, s32 d, s32 a, s32 b = kNone) {
    Op& op = decode.emit(handler);
    op.d = d;
    op.a = a;
    op.b = b;
    return op;
}

struct Comparison {
    std::string_view name;
    Handler combination = nullptr;
    bool ftz = false;
};

// .lt.and.ftz and the like, which come before the types.
Comparison take_comparison(Decode& decode) {
    Comparison result;
    if (decode.instruction.modifiers.empty())
        Decode::unknown("it needs a comparison");
    result.name = decode.instruction.modifiers.front();
    decode.take(result.name);
    result.combination = decode.take("and")   ? combine<And>
                         : decode.take("or")  ? combine<Or>
                         : decode.take("xor") ? combine<Xor>
                                              : nullptr;
    result.ftz = decode.take("ftz");
    return result;
}

// The truth of the comparison, combined with the predicate that may follow.
s32 compare(Decode& decode, const Comparison& comparison, Type type, bool high, bool inverted) {
    const Handler handler = ptx::comparison(decode, comparison.name, type, comparison.ftz, high);
    if (handler == nullptr)
        Decode::unknown("there is no such comparison");
    const s32 a = decode.value(1, type), b = decode.value(2, type);
    s32 truth = decode.names.temporary();
    emit(decode, handler, truth, a, b);
    if (inverted) {
        const s32 other = decode.names.temporary();
        emit(decode, convert<bool, Invert>, other, truth);
        truth = other;
    }
    if (comparison.combination == nullptr)
        return truth;
    const s32 with = decode.predicate(decode.operand(3)), combined = decode.names.temporary();
    emit(decode, comparison.combination, combined, truth, with);
    return combined;
}

void decode_setp(Decode& decode) {
    const Comparison comparison = take_comparison(decode);
    const Type type = decode.take_type();
    decode.finish();
    decode.expect_operands(comparison.combination == nullptr ? 3 : 4);
    const Operand& p = decode.operand(0);
    const bool halves = type == Type::F16x2 || type == Type::BF16x2;
    const s32 truth = compare(decode, comparison, type, false, false);
    const s32 other = p.parts.empty() ? kNone : compare(decode, comparison, type, halves, !halves);
    emit(decode, convert<bool, Identity>, decode.destination(p), truth);
    if (other != kNone)
        emit(decode, convert<bool, Identity>, decode.destination(p.parts[0]), other);
}

void decode_set(Decode& decode) {
    const Comparison comparison = take_comparison(decode);
    const Type to = decode.take_type(), type = decode.take_type();
    decode.finish();
    decode.expect_operands(comparison.combination == nullptr ? 3 : 4);
    const Handler handler = to == Type::U32 || to == Type::S32 ? convert<u32, AllOnes>
                            : to == Type::F32                  ? convert<float, OneFloat>
                            : to == Type::F16                  ? convert<u16, OneHalf>
                            : to == Type::BF16                 ? convert<u16, OneBrainHalf>
                                                               : nullptr;
    if (handler == nullptr || type == Type::F16x2 || type == Type::BF16x2)
        Decode::unknown("there is none of these types");
    const s32 truth = compare(decode, comparison, type, false, false);
    emit(decode, handler, decode.destination(0), truth);
}

template <class T>
void select_by_sign(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = from_slot<T>(c[i]) >= T{0} ? a[i] : b[i]; });
}

void decode_slct(Decode& decode) {
    decode.take("ftz");  // a subnormal number is no less than zero only where it is positive or flushed
    const Type type = decode.take_type(), by = decode.take_type();
    decode.finish();
    decode.expect_operands(4);
    if (by != Type::F32 && by != Type::S32)
        Decode::unknown("there is none of these types");
    const s32 a = decode.value(1, type), b = decode.value(2, type), c = decode.value(3, by);
    emit(decode, by == Type::F32 ? select_by_sign<float> : select_by_sign<s32>, decode.destination(0), a, b).c = c;
}

}  // namespace

bool decode_compare(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name == "setp")
        decode_setp(decode);
    else if (name == "set")
        decode_set(decode);
    else if (name == "slct")
        decode_slct(decode);
    else
        return false;
    return true;
}

}  // namespace vgpu::ptx
