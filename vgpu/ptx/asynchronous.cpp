// Copies that a thread does not wait for, and the barriers that count them: PTX ISA, "Asynchronous Copy" and
// "mbarrier". Copies are done at once here, so that waiting for them is nothing.
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

void nothing(Warp&, const Op&, Mask) {}

// `immediate` the bytes; c, where there is one, how many are read: the rest are zeros.
void copy(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *c = op.c != kNone ? warp.get(op.c) : nullptr;
    const unsigned bytes = op.count;
    lanes(mask, [&](unsigned i) {
        std::byte* to = warp.locate(Space::Shared, a[i] + static_cast<u64>(op.immediate), bytes, i, true);
        const unsigned wanted = c != nullptr ? std::min(static_cast<u32>(c[i]), bytes) : bytes;
        std::memset(to, 0, bytes);
        if (wanted != 0)
            std::memcpy(to, warp.locate(Space::Generic, b[i] + op.target, bytes, i, false), wanted);
    });
}

void decode_copy(Decode& decode) {
    for (const std::string_view word : {"async", "ca", "cg"})
        decode.take(word);
    const bool policy = decode.take("L2::cache_hint");
    while (decode.take_like("L2::")) {
    }
    while (!decode.take_space().empty()) {
    }
    decode.finish();
    Op to, from;
    decode.address(to, decode.operand(0), "shared");
    decode.address(from, decode.operand(1), "global");
    const Operand& size = decode.operand(2);
    if (size.kind != Operand::Kind::Integer || size.value > 16 || (size.value & (size.value - 1)) != 0 ||
        from.immediate < 0)
        Decode::unknown("it copies 4, 8 or 16 bytes");
    const std::size_t most = policy ? 4 : 3;
    const s32 c = decode.operands() > most ? decode.value(3, Type::U32) : kNone;
    Op& op = decode.emit(copy);
    op.a = to.a;
    op.immediate = to.immediate;
    op.b = from.a;
    op.target = static_cast<u32>(from.immediate);
    op.count = static_cast<u8>(size.value);
    op.c = c;
}

// The object of 64 bits, whose form PTX leaves open: the threads that have yet to arrive in this phase, how many are
// expected in each, the bytes yet to come, and how many phases have ended.
struct Object {
    u32 pending : 20;
    u32 expected : 12;
    u32 expected_high : 8;
    s32 bytes : 23;
    u32 phase : 1;
};
static_assert(sizeof(Object) == 8);

class Held {
  public:
    Held(Warp& warp, u64 address, unsigned lane) : at_(warp.locate(Space::Shared, address, 8, lane, true)) {
        std::memcpy(&object_, at_, sizeof object_);
    }
    unsigned expected() const { return object_.expected | object_.expected_high << 12; }
    void expect(unsigned threads) {
        object_.expected = threads & 0xfff;
        object_.expected_high = threads >> 12 & 0xff;
    }
    void settle() {
        if (object_.pending == 0 && object_.bytes == 0) {
            object_.phase ^= 1;
            object_.pending = expected() & 0xfffff;
        }
        std::memcpy(at_, &object_, sizeof object_);
    }
    u64 bits() const { return std::bit_cast<u64>(object_); }
    Object& operator*() { return object_; }

  private:
    std::byte* at_;
    Object object_;
};

void initialise(Warp& warp, const Op& op, Mask mask) {
    lanes(mask, [&](unsigned i) {
        Held held(warp, warp.get(op.a)[i] + static_cast<u64>(op.immediate), i);
        const unsigned threads = static_cast<u32>(warp.get(op.b)[i]);
        if (threads == 0 || threads >= 1u << 20)
            throw Fault{Outcome::Kind::IllegalInstruction, "a barrier is for 1 to 1048575 threads", i};
        *held = {};
        held.expect(threads);
        (*held).pending = threads & 0xfffff;
        held.settle();
    });
}

enum Detail : u8 { kExpects = 1, kOnlyExpects = 2, kDrops = 4, kParity = 8 };

// b: how many arrive; c: the bytes that are expected with them.
void arrive(Warp& warp, const Op& op, Mask mask) {
    lanes(mask, [&](unsigned i) {
        Held held(warp, warp.get(op.a)[i] + static_cast<u64>(op.immediate), i);
        const u64 before = held.bits();
        if ((op.detail & kExpects) != 0)
            (*held).bytes += static_cast<s32>(warp.get(op.c)[i]);
        if ((op.detail & kOnlyExpects) == 0) {
            const unsigned count = op.b != kNone ? static_cast<u32>(warp.get(op.b)[i]) : 1;
            if (count > (*held).pending)
                throw Fault{Outcome::Kind::IllegalInstruction, "more threads arrive than the barrier expects", i};
            (*held).pending -= count;
            if ((op.detail & kDrops) != 0)
                held.expect(held.expected() - count);
        }
        held.settle();
        if (op.d != kNone)
            warp.at(op.d)[i] = before;
    });
}

void test(Warp& warp, const Op& op, Mask mask) {
    Mask waiting = 0;
    lanes(mask, [&](unsigned i) {
        Held held(warp, warp.get(op.a)[i] + static_cast<u64>(op.immediate), i);
        const u64 given = warp.get(op.b)[i];
        const unsigned phase = (op.detail & kParity) != 0 ? given & 1 : std::bit_cast<Object>(given).phase;
        const bool done = (*held).phase != phase;
        warp.at(op.d)[i] = done;
        waiting |= Mask{!done} << i;
    });
    warp.go_on(mask);
    warp.yielded = waiting != 0;
}

void pending_count(Warp& warp, const Op& op, Mask mask) {
    lanes(mask, [&](unsigned i) { warp.at(op.d)[i] = std::bit_cast<Object>(warp.get(op.a)[i]).pending; });
}

void take_barrier_words(Decode& decode) {
    for (const std::string_view word : {"b64", "relaxed", "acquire", "release", "cta", "cluster", "noComplete"})
        decode.take(word);
    if (decode.instruction.modifiers.size() > 1)
        decode.take_space();
}

void decode_arrive(Decode& decode, bool drops) {
    const bool arrives = decode.take("arrive") || decode.take("arrive_drop"), expects = decode.take("expect_tx");
    take_barrier_words(decode);
    decode.finish();
    const std::size_t first = arrives ? 1 : 0;
    const s32 d = arrives ? decode.destination(0) : kNone;
    Op address;
    decode.address(address, decode.operand(first), "shared");
    const s32 b = arrives && !expects && decode.operands() > 2 ? decode.value(2, Type::U32) : kNone;
    const s32 c = expects ? decode.value(first + 1, Type::U32) : kNone;
    Op& op = decode.emit(arrive);
    op.a = address.a;
    op.immediate = address.immediate;
    op.b = b;
    op.c = c;
    op.d = d;
    op.detail = static_cast<u8>((expects ? kExpects : 0) | (arrives ? 0 : kOnlyExpects) | (drops ? kDrops : 0));
}

void decode_test(Decode& decode) {
    const bool parity = decode.take("parity");
    take_barrier_words(decode);
    decode.finish();
    decode.expect_operands(3, 4);
    const s32 d = decode.destination(0), b = decode.value(2, Type::B64);
    Op address;
    decode.address(address, decode.operand(1), "shared");
    Op& op = decode.emit(test);
    op.flow = Flow::Other;
    op.d = d;
    op.b = b;
    op.a = address.a;
    op.immediate = address.immediate;
    op.detail = parity ? kParity : 0;
}

void decode_mbarrier(Decode& decode) {
    const std::string_view what = decode.instruction.modifiers.empty() ? "" : decode.instruction.modifiers.front();
    if (what == "test_wait" || what == "try_wait") {
        decode.take(what);
        decode_test(decode);
    } else if (what == "arrive" || what == "arrive_drop" || what == "expect_tx") {
        decode_arrive(decode, what == "arrive_drop");
    } else if (what == "init") {
        decode.take("init");
        take_barrier_words(decode);
        decode.finish();
        Op address;
        decode.address(address, decode.operand(0), "shared");
        const s32 b = decode.value(1, Type::U32);
        Op& op = decode.emit(initialise);
        op.a = address.a;
        op.immediate = address.immediate;
        op.b = b;
    } else if (what == "inval") {
        decode.emit(nothing);
    } else if (what == "pending_count") {
        const s32 d = decode.destination(0), a = decode.value(1, Type::B64);
        Op& op = decode.emit(pending_count);
        op.d = d;
        op.a = a;
    } else {
        Decode::unknown("there is none of this kind");
    }
}

}  // namespace

bool decode_asynchronous(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name == "mbarrier") {
        decode_mbarrier(decode);
        return true;
    }
    if (name != "cp" || decode.instruction.modifiers.empty() || decode.instruction.modifiers.front() != "async")
        return false;
    for (const std::string_view word : {"commit_group", "wait_group", "wait_all"}) {
        if (decode.instruction.modifiers.size() == 2 && decode.instruction.modifiers[1] == word) {
            decode.emit(nothing);
            return true;
        }
    }
    for (const std::string_view word : decode.instruction.modifiers)
        if (word == "bulk" || word.starts_with("mbarrier"))
            Decode::unknown("cp.async." + std::string(word) + " is not known");
    decode_copy(decode);
    return true;
}

}  // namespace vgpu::ptx
