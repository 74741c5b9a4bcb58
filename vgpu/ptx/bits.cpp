// Bits and bytes: PTX ISA, "Logic and Shift Instructions", and of the integer instructions those on bits.
#include <algorithm>

#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

struct And {
    template <class T>
    T operator()(T a, T b) const {
        return a & b;
    }
};
struct Or {
    template <class T>
    T operator()(T a, T b) const {
        return a | b;
    }
};
struct Xor {
    template <class T>
    T operator()(T a, T b) const {
        return a ^ b;
    }
};
struct Not {
    template <class T>
    T operator()(T a) const {
        return static_cast<T>(~a);
    }
};
struct NotOne {
    u64 operator()(u64 a) const { return (a & 1) ^ 1; }
};
struct IsZero {
    template <class T>
    T operator()(T a) const {
        return a == 0;
    }
};
struct Population {
    template <class T>
    u32 operator()(T a) const {
        return static_cast<u32>(std::popcount(a));
    }
};
struct LeadingZeros {
    template <class T>
    u32 operator()(T a) const {
        return static_cast<u32>(std::countl_zero(a));
    }
};
struct Reverse {
    template <class T>
    T operator()(T a) const {
        T result = 0;
        for (unsigned i = 0; i < 8 * sizeof(T); ++i)
            result |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
        return result;
    }
};

// Shifts by more than the width are as by the width (PTX ISA, "shl" and "shr").
struct ShiftLeft {
    template <class T>
    T operator()(T a, u32 b) const {
        return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << b);
    }
};
struct ShiftRight {
    template <class T>
    T operator()(T a, u32 b) const {
        return static_cast<T>(a >> std::min<u32>(b, 8 * sizeof(T) - 1) >> (b >= 8 * sizeof(T) ? 1 : 0));
    }
};

template <class T, class F>
void shift(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = to_slot<T>(F{}(static_cast<T>(a[i]), static_cast<u32>(b[i]))); });
}

template <class F>
Handler logic(Type type) {
    switch (type) {
        case Type::Pred:
        case Type::B64:
            return binary<u64, u64, F>;
        case Type::B32:
            return binary<u32, u32, F>;
        case Type::B16:
            return binary<u16, u16, F>;
        default:
            return nullptr;
    }
}

template <template <class> class Form>
Handler unsigned_of(Type type) {
    return bytes_of(type) == 8 ? Form<u64>::handler : bytes_of(type) == 4 ? Form<u32>::handler : Form<u16>::handler;
}
template <class T>
struct Nots {
    static constexpr Handler handler = unary<T, T, Not>;
};
template <class T>
struct Zeros {
    static constexpr Handler handler = unary<T, T, IsZero>;
};
template <class T>
struct Populations {
    static constexpr Handler handler = unary<u32, T, Population>;
};
template <class T>
struct Leading {
    static constexpr Handler handler = unary<u32, T, LeadingZeros>;
};
template <class T>
struct Reverses {
    static constexpr Handler handler = unary<T, T, Reverse>;
};
template <class T>
struct Lefts {
    static constexpr Handler handler = shift<T, ShiftLeft>;
};
template <class T>
struct Rights {
    static constexpr Handler handler = shift<T, ShiftRight>;
};
template <class T>
struct SignedRights {
    static constexpr Handler handler = shift<std::make_signed_t<T>, ShiftRight>;
};

u32 logic3(u32 a, u32 b, u32 c, unsigned table) {
    u32 result = 0;
    for (unsigned i = 0; i < 8; ++i)
        if ((table >> i & 1) != 0)
            result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
    return result;
}
void look_up(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c), *table = warp.get(op.e);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        d[i] =
            logic3(static_cast<u32>(a[i]), static_cast<u32>(b[i]), static_cast<u32>(c[i]), static_cast<u8>(table[i]));
    });
}

enum Detail : u8 { kLeft = 1, kWrap = 2, kSigned = 4, kWide = 8, kAmount = 16 };

void funnel(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u64 both = u64{static_cast<u32>(b[i])} << 32 | static_cast<u32>(a[i]);
        const u32 amount = static_cast<u32>(c[i]);
        const u32 n = (op.detail & kWrap) != 0 ? amount & 31 : std::min(amount, 32u);
        d[i] = static_cast<u32>((op.detail & kLeft) != 0 ? both << n >> 32 : both >> n);
    });
}

u32 pick_byte(u64 bytes, u32 selector) {
    const u32 byte = static_cast<u32>(bytes >> (8 * (selector & 7))) & 0xff;
    return (selector & 8) != 0 ? (byte & 0x80) != 0 ? 0xff : 0 : byte;
}

// PTX ISA, "prmt": which byte each of the modes takes for byte k, from the low bits of the selector.
u32 mode_selector(u8 mode, u32 n, u32 k) {
    switch (mode) {
        case 1:
            return n + k;  // f4e
        case 2:
            return n - k;  // b4e
        case 3:
            return n & 3;  // rc8
        case 4:
            return std::max(n & 3, k);  // ecl
        case 5:
            return std::min(n & 3, k);  // ecr
        default:
            return (n & 1) * 2 + (k & 1);  // rc16
    }
}

void permute(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u64 bytes = u64{static_cast<u32>(b[i])} << 32 | static_cast<u32>(a[i]);
        const u32 selector = static_cast<u32>(c[i]);
        u32 result = 0;
        for (u32 k = 0; k < 4; ++k)
            result |= pick_byte(bytes, op.detail == 0 ? selector >> (4 * k) & 15
                                                      : mode_selector(op.detail, selector & 3, k) & 7)
                      << (8 * k);
        d[i] = result;
    });
}

template <class T>
void extract(Warp& warp, const Op& op, Mask mask) {
    constexpr unsigned kBits = 8 * sizeof(T);
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const std::make_unsigned_t<T> x = static_cast<std::make_unsigned_t<T>>(a[i]);
        const unsigned at = b[i] & 0xff, length = c[i] & 0xff;
        const bool sign = std::is_signed_v<T> && length != 0 && (x >> std::min(at + length - 1, kBits - 1) & 1) != 0;
        std::make_unsigned_t<T> field = at >= kBits ? 0 : x >> at;
        const unsigned kept = at >= kBits ? 0 : std::min(length, kBits - at);
        if (kept < kBits) {
            const std::make_unsigned_t<T> low = (std::make_unsigned_t<T>{1} << kept) - 1;
            field = sign ? field | ~low : field & low;
        }
        d[i] = to_slot<T>(static_cast<T>(field));
    });
}

template <class T>
void insert(Warp& warp, const Op& op, Mask mask) {
    constexpr unsigned kBits = 8 * sizeof(T);
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c), *e = warp.get(op.e);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const unsigned at = c[i] & 0xff, length = std::min<unsigned>(e[i] & 0xff, kBits);
        const T low = length == kBits ? ~T{0} : static_cast<T>((T{1} << length) - 1);
        const T field = at >= kBits ? T{0} : static_cast<T>(low << at);
        const T value = at >= kBits ? T{0} : static_cast<T>(static_cast<T>(a[i]) << at);
        d[i] = (static_cast<T>(b[i]) & ~field) | (value & field);
    });
}

template <class T>
void find_first(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        using U = std::make_unsigned_t<T>;
        U x = static_cast<U>(a[i]);
        if (std::is_signed_v<T> && static_cast<T>(x) < 0)
            x = static_cast<U>(~x);
        const u32 zeros = static_cast<u32>(std::countl_zero(x));
        d[i] = x == 0 ? 0xffffffffu : op.detail == kAmount ? zeros : 8 * sizeof(T) - 1 - zeros;
    });
}

// PTX ISA, "fns": the position of the n-th set bit from a base on.
void find_nth(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u32 bits = static_cast<u32>(a[i]);
        const int step = static_cast<s32>(c[i]) < 0 ? -1 : 1;
        int left = std::abs(static_cast<s32>(c[i])), at = static_cast<int>(static_cast<u32>(b[i]) & 31);
        d[i] = 0xffffffffu;
        if (left == 0) {
            d[i] = (bits >> at & 1) != 0 ? static_cast<u32>(at) : 0xffffffffu;
            return;
        }
        for (; at >= 0 && at < 32; at += step)
            if ((bits >> at & 1) != 0 && --left == 0) {
                d[i] = static_cast<u32>(at);
                return;
            }
    });
}

s64 dot_part(u64 bits, unsigned shift, unsigned width, bool sign) {
    const u64 part = bits >> shift << (64 - width);
    return sign ? static_cast<s64>(part) >> (64 - width) : static_cast<s64>(part >> (64 - width));
}

// `detail`: bit 0 and 1 whether a and b are signed, bit 2 whether the second half of b is taken; `count` elements.
void dot_product(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = warp.at(op.d);
    const unsigned wide = 32u / op.count, offset = (op.detail & 4) != 0 ? 16 : 0;
    lanes(mask, [&](unsigned i) {
        u32 sum = static_cast<u32>(c[i]);
        for (unsigned k = 0; k < op.count; ++k)
            sum += static_cast<u32>(dot_part(a[i], k * wide, wide, (op.detail & 1) != 0) *
                                    dot_part(b[i], offset + k * 8, 8, (op.detail & 2) != 0));
        d[i] = sum;
    });
}

// PTX ISA, "szext": `detail` has kWrap and kSigned.
void extend(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u32 x = static_cast<u32>(a[i]), given = static_cast<u32>(b[i]);
        const u32 n = (op.detail & kWrap) != 0 ? given & 31 : std::min(given, 32u);
        const u32 low = n == 32 ? ~0u : (1u << n) - 1;
        const bool sign = (op.detail & kSigned) != 0 && n > 0 && (x >> (n - 1) & 1) != 0;
        d[i] = sign ? x | ~low : x & low;
    });
}

void make_mask(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u64 wrap = (op.detail & kWrap) != 0 ? 31 : 0xffffffff;
        const u64 at = std::min<u64>(a[i] & wrap, 32), length = std::min<u64>(b[i] & wrap, 32);
        d[i] = static_cast<u32>(((u64{1} << length) - 1) << at);
    });
}

Op& emit(Decode& decode, Handler handler, Type type, std::size_t operands, bool counts = false) {
    if (handler == nullptr)
        Decode::unknown("there is none of this type");
    decode.finish();
    decode.expect_operands(operands);
    s32 slots[5] = {decode.destination(0), kNone, kNone, kNone, kNone};
    for (std::size_t i = 1; i < operands; ++i)
        slots[i] = decode.value(i, counts && i > 1 ? Type::U32 : type);
    Op& op = decode.emit(handler);
    op.d = slots[0];
    op.a = slots[1];
    op.b = slots[2];
    op.c = slots[3];
    op.e = slots[4];
    return op;
}

void decode_logic(Decode& decode, std::string_view name) {
    const Type type = decode.take_type();
    if (name == "not")
        emit(decode, type == Type::Pred ? unary<u64, u64, NotOne> : unsigned_of<Nots>(type), type, 2);
    else
        emit(decode, name == "and" ? logic<And>(type) : name == "or" ? logic<Or>(type) : logic<Xor>(type), type, 3);
}

void decode_shift(Decode& decode, bool left) {
    const Type type = decode.take_type();
    emit(decode,
         left              ? unsigned_of<Lefts>(type)
         : is_signed(type) ? unsigned_of<SignedRights>(type)
                           : unsigned_of<Rights>(type),
         type, 3, true);
}

void decode_funnel(Decode& decode) {
    const bool left = decode.take("l"), wrap = decode.take("wrap");
    decode.take("r");
    decode.take("clamp");
    decode.take("b32");
    emit(decode, funnel, Type::B32, 4).detail = static_cast<u8>((left ? kLeft : 0) | (wrap ? kWrap : 0));
}

void decode_permute(Decode& decode) {
    decode.take("b32");
    u8 mode = 0, number = 0;
    for (const std::string_view name : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
        ++number;
        mode = decode.take(name) ? number : mode;
    }
    emit(decode, permute, Type::B32, 4).detail = mode;
}

template <template <class> class Form>
Handler sized(Type type) {
    switch (type) {
        case Type::U32:
            return Form<u32>::handler;
        case Type::S32:
            return Form<s32>::handler;
        case Type::U64:
            return Form<u64>::handler;
        case Type::S64:
            return Form<s64>::handler;
        default:
            return nullptr;
    }
}
template <class T>
struct Extract {
    static constexpr Handler handler = extract<T>;
};
template <class T>
struct FindFirst {
    static constexpr Handler handler = find_first<T>;
};

void decode_dot(Decode& decode, bool of_four) {
    const bool high = decode.take("hi");
    decode.take("lo");
    const Type a = decode.take_type(), b = decode.take_type();
    Op& op = emit(decode, dot_product, Type::B32, 4);
    op.count = of_four ? 4 : 2;
    op.detail = static_cast<u8>((is_signed(a) ? 1 : 0) | (is_signed(b) ? 2 : 0) | (high ? 4 : 0));
}

void decode_find(Decode& decode) {
    const bool amount = decode.take("shiftamt");
    const Type type = decode.take_type();
    emit(decode, sized<FindFirst>(type), type, 2).detail = amount ? kAmount : 0;
}

void decode_wrapping(Decode& decode, Handler handler) {
    const bool wrap = decode.take("wrap");
    decode.take("clamp");
    const Type type = decode.take_type();
    emit(decode, handler, type, 3).detail = static_cast<u8>((wrap ? kWrap : 0) | (is_signed(type) ? kSigned : 0));
}

void decode_typed(Decode& decode, std::string_view name) {
    const Type type = decode.take_type();
    if (name == "cnot")
        emit(decode, unsigned_of<Zeros>(type), type, 2);
    else if (name == "popc")
        emit(decode, unsigned_of<Populations>(type), type, 2);
    else if (name == "clz")
        emit(decode, unsigned_of<Leading>(type), type, 2);
    else if (name == "brev")
        emit(decode, unsigned_of<Reverses>(type), type, 2);
    else if (name == "bfe")
        emit(decode, sized<Extract>(type), type, 4, true);
    else if (name == "bfi")
        emit(decode, bytes_of(type) == 8 ? insert<u64> : insert<u32>, type, 5);
    else if (name == "lop3")
        emit(decode, look_up, type, 5);
    else
        emit(decode, find_nth, type, 4);
}

}  // namespace

bool decode_bits(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name == "and" || name == "or" || name == "xor" || name == "not")
        decode_logic(decode, name);
    else if (name == "shl" || name == "shr")
        decode_shift(decode, name == "shl");
    else if (name == "shf")
        decode_funnel(decode);
    else if (name == "prmt")
        decode_permute(decode);
    else if (name == "bfind")
        decode_find(decode);
    else if (name == "dp4a" || name == "dp2a")
        decode_dot(decode, name == "dp4a");
    else if (name == "szext" || name == "bmsk")
        decode_wrapping(decode, name == "szext" ? extend : make_mask);
    else if (name == "cnot" || name == "popc" || name == "clz" || name == "brev" || name == "bfe" || name == "bfi" ||
             name == "lop3" || name == "fns")
        decode_typed(decode, name);
    else
        return false;
    return true;
}

}  // namespace vgpu::ptx
