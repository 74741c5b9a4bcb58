// Numbers of 16 bits, alone and in pairs: PTX ISA, "Half Precision Floating Point Instructions". They are computed in
// double, where sums and products of two are exact, and rounded once.
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/narrow.hpp"

namespace vgpu::ptx {
namespace {

enum Detail : u8 { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs, kExponential, kTangent };

double extreme(double a, double b, bool most, bool nan) {
    if (a != a || b != b)
        return nan || (a != a && b != b) ? std::numeric_limits<double>::quiet_NaN() : a != a ? b : a;
    if (a == b)
        return std::signbit(a) == most ? b : a;
    return (a > b) == most ? a : b;
}

double compute(const Op& op, double a, double b, double c) {
    switch (op.detail) {
        case kAdd:
            return fused_to_odd(a, 1, b);
        case kSub:
            return fused_to_odd(a, 1, -b);
        case kMul:
            return a * b;
        case kFma:
            return fused_to_odd(a, b, c);
        case kMin:
        case kMax:
            return extreme(a, b, op.detail == kMax, op.count != 0);
        case kExponential:
            return std::exp2(a);
        default:
            return std::tanh(a);
    }
}

double subnormal_flushed(const Format& format, double x) {
    return std::fabs(x) < std::ldexp(1.0, 1 - format.bias()) ? std::copysign(0.0, x) : x;
}

template <const Format& kFormat>
u32 one(const Op& op, u32 a, u32 b, u32 c) {
    if (op.detail == kNeg)
        return a ^ 0x8000;
    if (op.detail == kAbs)
        return a & 0x7fff;
    double x = widen(kFormat, a), y = widen(kFormat, b), z = widen(kFormat, c);
    if (op.ftz) {
        x = subnormal_flushed(kFormat, x);
        y = subnormal_flushed(kFormat, y);
        z = subnormal_flushed(kFormat, z);
    }
    double result = compute(op, x, y, z);
    if (op.saturate)
        result = saturated(result);
    if (op.relu && result == result)
        result = result > 0 ? result : 0.0;
    const u32 bits = narrow(kFormat, result, op.rounding);
    return op.ftz && (bits & ((1u << kFormat.exponent_bits) - 1) << kFormat.mantissa_bits) == 0 ? bits & 0x8000 : bits;
}

template <const Format& kFormat, bool kPair>
void compute_lanes(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = op.b != kNone ? warp.get(op.b) : a, *c = op.c != kNone ? warp.get(op.c) : a;
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const auto part = [&](unsigned shift) {
            return one<kFormat>(op, static_cast<u16>(a[i] >> shift), static_cast<u16>(b[i] >> shift),
                                static_cast<u16>(c[i] >> shift));
        };
        d[i] = kPair ? part(0) | part(16) << 16 : part(0);
    });
}

struct Name {
    std::string_view name;
    Detail detail;
    unsigned operands;
};
constexpr Name kNames[] = {{"add", kAdd, 2},         {"sub", kSub, 2},     {"mul", kMul, 2}, {"fma", kFma, 3},
                           {"min", kMin, 2},         {"max", kMax, 2},     {"neg", kNeg, 1}, {"abs", kAbs, 1},
                           {"ex2", kExponential, 1}, {"tanh", kTangent, 1}};

Type narrow_type(const Instruction& instruction) {
    for (const std::string_view word : instruction.modifiers) {
        const Type type = type_of(word);
        if (type != Type::None)
            return type >= Type::F16 && type <= Type::BF16x2 ? type : Type::None;
    }
    return Type::None;
}

void decode_named(Decode& decode, const Name& name) {
    const Type type = decode.take_type();
    decode.take("rn");
    decode.take("approx");
    const bool ftz = decode.take("ftz"), saturate = decode.take("sat"), relu = decode.take("relu"),
               nan = decode.take("NaN");
    decode.finish();
    decode.expect_operands(name.operands + 1);
    const bool pair = type == Type::F16x2 || type == Type::BF16x2;
    const s32 d = decode.destination(0), a = decode.value(1, type);
    const s32 b = name.operands > 1 ? decode.value(2, type) : kNone,
              c = name.operands > 2 ? decode.value(3, type) : kNone;
    Op& op = decode.emit(type == Type::F16     ? compute_lanes<kHalf, false>
                         : type == Type::F16x2 ? compute_lanes<kHalf, true>
                         : pair                ? compute_lanes<kBrainHalf, true>
                                               : compute_lanes<kBrainHalf, false>);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
    op.detail = name.detail;
    op.ftz = ftz;
    op.saturate = saturate;
    op.relu = relu;
    op.count = nan;
}

}  // namespace

bool decode_half(Decode& decode) {
    if (narrow_type(decode.instruction) == Type::None)
        return false;
    for (const Name& name : kNames)
        if (name.name == decode.instruction.opcode) {
            decode_named(decode, name);
            return true;
        }
    return false;
}

}  // namespace vgpu::ptx
