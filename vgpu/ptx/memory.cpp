// Loads, stores and addresses: PTX ISA, "Data Movement and Conversion Instructions".
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

enum Order : u8 { kRelaxed, kAcquireRelease };

// Every access of an aligned word is one of the host's atomics: other launches run on other threads of the host, and
// PTX lets volatile and relaxed accesses race. Only frames are not aligned as their words are.
template <class T>
T read(const std::byte* from, u8 order, Space space) {
    if (space == Space::Frame || space == Space::KernelParameter) {
        T value;
        std::memcpy(&value, from, sizeof value);
        return value;
    }
    const T* word = reinterpret_cast<const T*>(from);
    return order == kRelaxed ? __atomic_load_n(word, __ATOMIC_RELAXED) : __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

template <class T>
void write(std::byte* to, T value, u8 order, Space space) {
    if (space == Space::Frame)
        std::memcpy(to, &value, sizeof value);
    else if (order == kRelaxed)
        __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELAXED);
    else
        __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELEASE);
}

template <class T>
void load(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    const u64 offset = static_cast<u64>(op.immediate);
    lanes(mask, [&](unsigned i) {
        d[i] = to_slot(read<T>(warp.locate(op.space, a[i] + offset, sizeof(T), i, false), op.detail, op.space));
    });
}

template <class T>
void store(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b);
    const u64 offset = static_cast<u64>(op.immediate);
    lanes(mask, [&](unsigned i) {
        write<T>(warp.locate(op.space, a[i] + offset, sizeof(T), i, true), static_cast<T>(b[i]), op.detail, op.space);
    });
}

// A GPU moves a vector of 16 bytes at once, and the 128 bytes of lanes side by side, which PTX does not promise and
// NCCL's protocols LL and LL128 rely on: their last word is a flag. Here words are stored in ascending order and loaded
// in descending order, each after the one before, so that a warp that sees a word sees all those below it.
template <class T>
void load_several(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    const u64 offset = static_cast<u64>(op.immediate);
    lanes_down(mask, [&](unsigned i) {
        const std::byte* from = warp.locate(op.space, a[i] + offset, sizeof(T) * op.count, i, false);
        u64 values[8];
        for (unsigned k = op.count; k-- > 0;)
            values[k] = to_slot(read<T>(from + k * sizeof(T), kAcquireRelease, op.space));
        for (unsigned k = 0; k < op.count; ++k)
            warp.at((*op.list)[k])[i] = values[k];
    });
}

template <class T>
void store_several(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    const u64 offset = static_cast<u64>(op.immediate);
    lanes(mask, [&](unsigned i) {
        std::byte* to = warp.locate(op.space, a[i] + offset, sizeof(T) * op.count, i, true);
        for (unsigned k = 0; k < op.count; ++k)
            write<T>(to + k * sizeof(T), static_cast<T>(warp.get((*op.list)[k])[i]), kAcquireRelease, op.space);
    });
}

template <template <class> class Family>
Handler by_width(Type type, bool extend) {
    switch (bytes_of(type)) {
        case 1:
            return extend ? Family<s8>::handler : Family<u8>::handler;
        case 2:
            return extend ? Family<s16>::handler : Family<u16>::handler;
        case 4:
            return extend ? Family<s32>::handler : Family<u32>::handler;
        case 8:
            return Family<u64>::handler;
        default:
            return nullptr;
    }
}
template <class T>
struct Load {
    static constexpr Handler handler = load<T>;
};
template <class T>
struct Store {
    static constexpr Handler handler = store<T>;
};
template <class T>
struct LoadSeveral {
    static constexpr Handler handler = load_several<T>;
};
template <class T>
struct StoreSeveral {
    static constexpr Handler handler = store_several<T>;
};

// How long a line is kept in which cache changes no result (PTX ISA, "Cache Operators" and "Cache Eviction Priority
// Hints"), nor does a scope: all of them are coherent here. True: there is one more operand, a cache policy.
bool take_hints(Decode& decode) {
    for (const std::string_view word : {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "cta", "cluster",
                                        "gpu", "sys", "mmio", "weak", "volatile", "relaxed"})
        decode.take(word);
    const bool policy = decode.take("L2::cache_hint");
    while (decode.take_like("L1::") || decode.take_like("L2::")) {
    }
    return policy;
}

unsigned take_count(Decode& decode) {
    return decode.take("v2") ? 2 : decode.take("v4") ? 4 : decode.take("v8") ? 8 : 1;
}

std::vector<s32> slots_of(Decode& decode, const Operand& operand, unsigned count, Type type, bool to_write) {
    std::vector<s32> slots;
    if (operand.kind == Operand::Kind::Vector) {
        for (const Operand& part : operand.parts)
            slots.push_back(to_write ? decode.destination(part) : decode.value(part, type));
    } else {
        slots.push_back(to_write ? decode.destination(operand) : decode.value(operand, type));
    }
    if (slots.size() != count)
        Decode::unknown("the vector has another number of elements");
    if (type != Type::B128)
        return slots;
    std::vector<s32> halves;
    for (const s32 slot : slots)
        halves.insert(halves.end(), {slot, slot + 1});
    return halves;
}

void decode_access(Decode& decode, bool to_write) {
    const bool ordered = decode.take(to_write ? "release" : "acquire");
    const bool policy = take_hints(decode);
    const std::string_view space = decode.take_space();
    const unsigned count = take_count(decode);
    const Type type = decode.take_type();
    decode.expect_operands(policy ? 3 : 2);
    Op address;
    decode.address(address, decode.operand(to_write ? 0 : 1), space);
    std::vector<s32> slots = slots_of(decode, decode.operand(to_write ? 1 : 0), count, type, !to_write);
    const Type word = type == Type::B128 ? Type::B64 : type;
    const bool extend = is_signed(type) && !to_write, several = slots.size() > 1;
    const Handler handler = several
                                ? to_write ? by_width<StoreSeveral>(word, extend) : by_width<LoadSeveral>(word, extend)
                            : to_write ? by_width<Store>(word, extend)
                                       : by_width<Load>(word, extend);
    if (handler == nullptr || type == Type::Pred)
        Decode::unknown("memory has no such type");
    Op& op = decode.emit(handler);
    op.a = address.a;
    op.immediate = address.immediate;
    op.space = address.space;
    op.detail = ordered ? kAcquireRelease : kRelaxed;
    op.count = static_cast<u8>(slots.size());
    (to_write ? op.b : op.d) = slots[0];
    if (several)
        op.list = decode.program.keep(std::move(slots));
}

template <u64 kWindow>
void is_in_window(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) {
        const u64 window = a[i] >> kWindowShift << kWindowShift;
        d[i] = window == kWindow;
    });
}

void move(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = a[i]; });
}
void enter_window(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    const u64 window = static_cast<u64>(op.immediate);
    lanes(mask, [&](unsigned i) { d[i] = window | static_cast<u32>(a[i]); });
}
void leave_window(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = static_cast<u32>(a[i]); });
}

// Addresses of global and constant memory and of parameters are the same in their space and as generic ones.
void decode_cvta(Decode& decode) {
    const bool leaves = decode.take("to");
    const std::string_view space = decode.take_space();
    decode.take("u64");
    decode.expect_operands(2);
    const s32 d = decode.destination(0), a = decode.value(1, Type::U64);
    const u64 window = space == "shared" ? kSharedWindow : space == "local" ? kLocalWindow : 0;
    Op& op = decode.emit(window == 0 ? move : leaves ? leave_window : enter_window);
    op.d = d;
    op.a = a;
    op.immediate = static_cast<s64>(window);
}

void decode_isspacep(Decode& decode) {
    const std::string_view space = decode.take_space();
    decode.expect_operands(2);
    const s32 d = decode.destination(0), a = decode.value(1, Type::U64);
    Op& op = decode.emit(space == "shared"  ? is_in_window<kSharedWindow>
                         : space == "local" ? is_in_window<kLocalWindow>
                         : space == "param" ? is_in_window<kParameterWindow>
                                            : is_in_window<0>);
    op.d = d;
    op.a = a;
}

void nothing(Warp&, const Op&, Mask) {}

// A policy is only ever a hint.
void decode_policy(Decode& decode) {
    const s32 d = decode.destination(0);
    Op& op = decode.emit(move);
    op.d = d;
    op.a = decode.constant(0);
}

}  // namespace

bool decode_memory(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name == "ld" || name == "ldu" || name == "st") {
        decode_access(decode, name == "st");
    } else if (name == "cvta") {
        decode_cvta(decode);
    } else if (name == "isspacep") {
        decode_isspacep(decode);
    } else if (name == "prefetch" || name == "prefetchu" || name == "applypriority") {
        decode.emit(nothing);
        return true;
    } else if (name == "createpolicy") {
        decode_policy(decode);
        return true;
    } else {
        return false;
    }
    decode.finish();
    return true;
}

}  // namespace vgpu::ptx
