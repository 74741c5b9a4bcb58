// Sums that carry: PTX ISA, "Extended-Precision Integer Arithmetic Instructions".
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

enum Detail : u8 { kCarryIn = 1, kCarryOut = 2, kHigh = 4, kSigned = 8 };

// The carry of a difference is a borrow, as 1 where one is to be taken off.
template <class T, bool kMinus>
T sum(Warp& warp, const Op& op, unsigned lane, T a, T b) {
    const bool in = (op.detail & kCarryIn) != 0 && warp.carry[lane] != 0;
    T result = 0;
    bool out = false;
    if constexpr (kMinus) {
        const bool first = __builtin_sub_overflow(a, b, &result);
        out = __builtin_sub_overflow(result, T{in}, &result) || first;
    } else {
        const bool first = __builtin_add_overflow(a, b, &result);
        out = __builtin_add_overflow(result, T{in}, &result) || first;
    }
    if ((op.detail & kCarryOut) != 0)
        warp.carry[lane] = out;
    return result;
}

template <class T, bool kMinus>
void add(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = sum<T, kMinus>(warp, op, i, static_cast<T>(a[i]), static_cast<T>(b[i])); });
}

template <class T>
T product(T a, T b, bool high, bool is_signed) {
    using Wide = std::conditional_t<sizeof(T) == 8, unsigned __int128, u64>;
    using SignedWide = std::conditional_t<sizeof(T) == 8, __int128, s64>;
    using Signed = std::make_signed_t<T>;
    if (!high)
        return a * b;
    return is_signed ? static_cast<T>(SignedWide{static_cast<Signed>(a)} * static_cast<Signed>(b) >> (8 * sizeof(T)))
                     : static_cast<T>(Wide{a} * b >> (8 * sizeof(T)));
}

template <class T>
void multiply_add(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const T x =
            product(static_cast<T>(a[i]), static_cast<T>(b[i]), (op.detail & kHigh) != 0, (op.detail & kSigned) != 0);
        d[i] = sum<T, false>(warp, op, i, x, static_cast<T>(c[i]));
    });
}

}  // namespace

bool decode_carry(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    const bool minus = name == "sub" || name == "subc", mad = name == "mad" || name == "madc";
    if (!minus && !mad && name != "add" && name != "addc")
        return false;
    const bool in = name == "addc" || name == "subc" || name == "madc", out = decode.take("cc");
    if (!in && !out)
        return false;
    const bool high = mad && decode.take("hi");
    if (mad)
        decode.take("lo");
    const Type type = decode.take_type();
    decode.finish();
    decode.expect_operands(mad ? 4 : 3);
    const bool wide = bytes_of(type) == 8;
    const s32 d = decode.destination(0), a = decode.value(1, type), b = decode.value(2, type);
    const s32 c = mad ? decode.value(3, type) : kNone;
    Op& op = decode.emit(mad     ? wide ? multiply_add<u64> : multiply_add<u32>
                             : minus ? wide ? add<u64, true> : add<u32, true>
                             : wide ? add<u64, false>
                                 : add<u32, false>);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = c;
    op.detail = static_cast<u8>((in ? kCarryIn : 0) | (out ? kCarryOut : 0) | (high ? kHigh : 0));
    op.detail |= is_signed(type) ? kSigned : 0;
    return true;
}

}  // namespace vgpu::ptx
