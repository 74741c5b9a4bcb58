// atom and red: PTX ISA, "Parallel Synchronization and Communication Instructions". They are atomics of the host, of
// the strongest order, so that they are atomic to launches of other devices and processes too.
#include <algorithm>

#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/narrow.hpp"

namespace vgpu::ptx {
namespace {

struct Add {
    template <class T>
    T operator()(T old, T b) const {
        return static_cast<T>(old + b);
    }
};
struct Min {
    template <class T>
    T operator()(T old, T b) const {
        return std::min(old, b);
    }
};
struct Max {
    template <class T>
    T operator()(T old, T b) const {
        return std::max(old, b);
    }
};
struct And {
    template <class T>
    T operator()(T old, T b) const {
        return old & b;
    }
};
struct Or {
    template <class T>
    T operator()(T old, T b) const {
        return old | b;
    }
};
struct Xor {
    template <class T>
    T operator()(T old, T b) const {
        return old ^ b;
    }
};
struct Exchange {
    template <class T>
    T operator()(T, T b) const {
        return b;
    }
};
struct Increment {
    template <class T>
    T operator()(T old, T b) const {
        return old >= b ? T{0} : static_cast<T>(old + 1);
    }
};
struct Decrement {
    template <class T>
    T operator()(T old, T b) const {
        return old == 0 || old > b ? b : static_cast<T>(old - 1);
    }
};
struct AddFloat {
    u32 operator()(u32 old, u32 b) const {
        return static_cast<u32>(to_slot(canonical(from_slot<float>(old) + from_slot<float>(b))));
    }
};
struct AddDouble {
    u64 operator()(u64 old, u64 b) const { return to_slot(from_slot<double>(old) + from_slot<double>(b)); }
};
template <const Format& kFormat>
struct AddNarrow {
    u16 operator()(u16 old, u16 b) const {
        return static_cast<u16>(
            narrow(kFormat, fused_to_odd(widen(kFormat, old), 1, widen(kFormat, b)), Rounding::Nearest));
    }
};
// Each half is atomic by itself (PTX ISA, "atom"); here both are at once.
template <const Format& kFormat>
struct AddPair {
    u32 operator()(u32 old, u32 b) const {
        const AddNarrow<kFormat> add;
        const u32 high = add(static_cast<u16>(old >> 16), static_cast<u16>(b >> 16));
        return high << 16 | add(static_cast<u16>(old), static_cast<u16>(b));
    }
};

template <class T, class F>
T change(std::byte* at, T b, F f) {
    T* word = reinterpret_cast<T*>(at);
    T old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &old, f(old, b), true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return old;
}

template <class T, class F>
void atomic(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    u64* d = op.d != kNone ? warp.at(op.d) : nullptr;
    lanes(mask, [&](unsigned i) {
        std::byte* at = warp.locate(op.space, a[i] + static_cast<u64>(op.immediate), sizeof(T), i, true);
        const T old = change<T>(at, static_cast<T>(b[i]), F{});
        if (d != nullptr)
            d[i] = to_slot(old);
    });
}

template <class T>
void compare_and_swap(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = warp.get(op.c);
    u64* d = op.d != kNone ? warp.at(op.d) : nullptr;
    lanes(mask, [&](unsigned i) {
        T* at = reinterpret_cast<T*>(warp.locate(op.space, a[i] + static_cast<u64>(op.immediate), sizeof(T), i, true));
        T expected = static_cast<T>(b[i]);
        __atomic_compare_exchange_n(at, &expected, static_cast<T>(c[i]), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        if (d != nullptr)
            d[i] = to_slot(expected);
    });
}

template <class F>
Handler of_bits(Type type) {
    return bytes_of(type) == 4 ? atomic<u32, F> : bytes_of(type) == 8 ? atomic<u64, F> : nullptr;
}
template <class F>
Handler of_ordered(Type type) {
    switch (type) {
        case Type::U32:
            return atomic<u32, F>;
        case Type::S32:
            return atomic<s32, F>;
        case Type::U64:
            return atomic<u64, F>;
        case Type::S64:
            return atomic<s64, F>;
        default:
            return nullptr;
    }
}

Handler adding(Type type) {
    switch (type) {
        case Type::F32:
            return atomic<u32, AddFloat>;
        case Type::F64:
            return atomic<u64, AddDouble>;
        case Type::F16:
            return atomic<u16, AddNarrow<kHalf>>;
        case Type::BF16:
            return atomic<u16, AddNarrow<kBrainHalf>>;
        case Type::F16x2:
            return atomic<u32, AddPair<kHalf>>;
        case Type::BF16x2:
            return atomic<u32, AddPair<kBrainHalf>>;
        default:
            return is_float(type) ? nullptr : of_bits<Add>(type);
    }
}

Handler swapping(Type type) {
    return bytes_of(type) == 2   ? compare_and_swap<u16>
           : bytes_of(type) == 4 ? compare_and_swap<u32>
           : bytes_of(type) == 8 ? compare_and_swap<u64>
                                 : nullptr;
}

Handler take_operation(Decode& decode, Type type, bool& swaps) {
    swaps = decode.take("cas");
    if (swaps)
        return swapping(type);
    if (decode.take("add"))
        return adding(type);
    if (decode.take("exch"))
        return is_float(type) ? nullptr : of_bits<Exchange>(type);
    if (decode.take("min"))
        return of_ordered<Min>(type);
    if (decode.take("max"))
        return of_ordered<Max>(type);
    if (decode.take("and"))
        return of_bits<And>(type);
    if (decode.take("or"))
        return of_bits<Or>(type);
    if (decode.take("xor"))
        return of_bits<Xor>(type);
    if (decode.take("inc"))
        return type == Type::U32 ? atomic<u32, Increment> : nullptr;
    if (decode.take("dec"))
        return type == Type::U32 ? atomic<u32, Decrement> : nullptr;
    return nullptr;
}

}  // namespace

bool decode_atomic(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name != "atom" && name != "red")
        return false;
    if (decode.take("async"))
        Decode::unknown("red.async is not known");
    for (const std::string_view word :
         {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz"})
        decode.take(word);
    const bool policy = decode.take("L2::cache_hint");
    const std::string_view space = decode.take_space();
    const Type type = decode.take_type();
    bool swaps = false;
    const Handler handler = take_operation(decode, type, swaps);
    if (handler == nullptr)
        Decode::unknown("there is no such operation on this type");
    decode.finish();
    const std::size_t first = name == "atom" ? 1 : 0;
    decode.expect_operands(first + (swaps ? 3 : 2) + (policy ? 1 : 0));
    const s32 d = first != 0 ? decode.destination(0) : kNone;
    Op address;
    decode.address(address, decode.operand(first), space);
    const s32 b = decode.value(first + 1, type), c = swaps ? decode.value(first + 2, type) : kNone;
    Op& op = decode.emit(handler);
    op.d = d;
    op.a = address.a;
    op.b = b;
    op.c = c;
    op.space = address.space;
    op.immediate = address.immediate;
    return true;
}

}  // namespace vgpu::ptx
