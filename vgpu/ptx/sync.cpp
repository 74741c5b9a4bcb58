// What lanes of a warp and warps of a block do together: PTX ISA, "Parallel Synchronization and Communication
// Instructions".
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

enum Kind : u8 {
    kSync,
    kShuffleUp,
    kShuffleDown,
    kShuffleButterfly,
    kShuffleIndex,
    kAll,
    kAny,
    kUniform,
    kBallot,
    kMatchAny,
    kMatchAll,
    kElect,
    kReduceAdd,
    kReduceMin,
    kReduceMax,
    kReduceMinSigned,
    kReduceMaxSigned,
    kReduceAnd,
    kReduceOr,
    kReduceXor
};

unsigned first(Mask mask) {
    return static_cast<unsigned>(__builtin_ctz(mask));
}

void set(Warp& warp, unsigned lane, s32 slot, u64 value) {
    if (slot != kNone)
        warp.set_lane_value(lane, slot, value);
}

// PTX ISA, "shfl.sync": c has the clamp in its low bits and the mask that makes segments from bit 8 on.
void shuffle(Warp& warp, unsigned lane, const Meeting& one) {
    const unsigned b = one.b & 31, clamp = one.c & 31, segment = one.c >> 8 & 31;
    const unsigned most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int from = 0;
    bool valid = false;
    switch (one.op->detail) {
        case kShuffleUp:
            from = static_cast<int>(lane) - static_cast<int>(b);
            valid = from >= static_cast<int>(most);
            break;
        case kShuffleDown:
            from = static_cast<int>(lane + b);
            valid = from <= static_cast<int>(most);
            break;
        case kShuffleButterfly:
            from = static_cast<int>(lane ^ b);
            valid = from <= static_cast<int>(most);
            break;
        default:
            from = static_cast<int>(least | (b & ~segment));
            valid = from <= static_cast<int>(most);
            break;
    }
    const unsigned source = valid ? static_cast<unsigned>(from) & 31 : lane;
    set(warp, lane, one.op->d, static_cast<u32>(warp.meetings[source].a));
    set(warp, lane, one.op->d2, valid);
}

u32 reduce(u8 kind, u32 x, u32 y) {
    const s32 a = static_cast<s32>(x), b = static_cast<s32>(y);
    switch (kind) {
        case kReduceAdd:
            return x + y;
        case kReduceMin:
            return x < y ? x : y;
        case kReduceMax:
            return x > y ? x : y;
        case kReduceMinSigned:
            return a < b ? x : y;
        case kReduceMaxSigned:
            return a > b ? x : y;
        case kReduceAnd:
            return x & y;
        case kReduceOr:
            return x | y;
        default:
            return x ^ y;
    }
}

u32 reduce_all(const Warp& warp, u8 kind, Mask members) {
    u32 result = static_cast<u32>(warp.meetings[first(members)].a);
    for (Mask m = members & (members - 1); m != 0; m &= m - 1)
        result = reduce(kind, result, static_cast<u32>(warp.meetings[first(m)].a));
    return result;
}

void vote(Warp& warp, unsigned lane, const Meeting& one, Mask members, Mask trues) {
    const u8 kind = one.op->detail;
    set(warp, lane, one.op->d,
        kind == kAll       ? trues == members
        : kind == kAny     ? trues != 0
        : kind == kUniform ? trues == members || trues == 0
                           : trues);
}

void match(Warp& warp, unsigned lane, const Meeting& one, Mask members) {
    Mask equal = 0;
    lanes(members, [&](unsigned i) { equal |= Mask{warp.meetings[i].a == one.a} << i; });
    if (one.op->detail == kMatchAny) {
        set(warp, lane, one.op->d, equal);
        return;
    }
    set(warp, lane, one.op->d, equal == members ? members : 0);
    set(warp, lane, one.op->d2, equal == members);
}

void finish(Warp& warp, unsigned lane, Mask members, Mask trues) {
    const Meeting& one = warp.meetings[lane];
    const u8 kind = one.op->detail;
    if (kind >= kShuffleUp && kind <= kShuffleIndex) {
        shuffle(warp, lane, one);
    } else if (kind >= kAll && kind <= kBallot) {
        vote(warp, lane, one, members, trues);
    } else if (kind == kMatchAny || kind == kMatchAll) {
        match(warp, lane, one, members);
    } else if (kind == kElect) {
        set(warp, lane, one.op->d, first(members));
        set(warp, lane, one.op->d2, lane == first(members));
    } else if (kind >= kReduceAdd) {
        set(warp, lane, one.op->d, reduce_all(warp, kind, members));
    }
}

// Lanes wait until all that the mask names, and that have not exited, are at an instruction of the kind and the mask.
void meet(Warp& warp, const Op& op, Mask mask) {
    const bool has_a = op.a != kNone, has_b = op.b != kNone, has_c = op.c != kNone;
    lanes(mask, [&](unsigned i) {
        Meeting& one = warp.meetings[i];
        one.op = &op;
        one.members = static_cast<Mask>(warp.get(op.e)[i]) | Mask{1} << i;
        one.a = has_a ? warp.get(op.a)[i] & static_cast<u64>(op.immediate) : 0;
        one.b = has_b ? warp.get(op.b)[i] : 0;
        one.c = has_c ? warp.get(op.c)[i] : 0;
        warp.pc[i] = warp.now + 1;
    });
    warp.at_meeting |= mask;
    warp.runnable &= ~mask;
    check_meetings(warp);
}

template <bool kWaits>
void arrive(Warp& warp, const Op& op, Mask mask) {
    const u64 *id = warp.get(op.a), *count = op.b != kNone ? warp.get(op.b) : nullptr;
    const u64* truth = op.c != kNone ? warp.get(op.c) : nullptr;
    warp.go_on(mask);
    lanes(mask, [&](unsigned i) {
        if (id[i] >= 16)
            throw Fault{Outcome::Kind::IllegalInstruction, "there is no barrier " + std::to_string(id[i]), i};
        Barrier& barrier = warp.block->barriers[id[i]];
        ++barrier.arrived;
        barrier.expected = count != nullptr ? static_cast<unsigned>(count[i]) : 0;
        barrier.trues += truth != nullptr && ((truth[i] & 1) != 0) != (op.detail >> 4 != 0);
        if (kWaits) {
            warp.barrier[i] = static_cast<u8>(id[i]);
            warp.meetings[i].op = &op;
        }
    });
    if (kWaits) {
        warp.at_barrier |= mask;
        warp.runnable &= ~mask;
    }
    check_barriers(*warp.block);
}

enum Reduction : u8 { kNoReduction, kPopulation, kAnd, kOr };

void release(Block& block, unsigned id) {
    const Barrier done = block.barriers[id];
    block.barriers[id] = {};
    for (const std::unique_ptr<Warp>& warp : block.warps) {
        for (Mask m = warp->at_barrier; m != 0; m &= m - 1) {
            const unsigned lane = first(m);
            if (warp->barrier[lane] != id)
                continue;
            const Op& op = *warp->meetings[lane].op;
            const u8 kind = op.detail & 15;
            if (kind != kNoReduction)
                warp->set_lane_value(lane, op.d,
                                     kind == kPopulation ? done.trues
                                     : kind == kAnd      ? done.trues == done.arrived
                                                         : done.trues != 0);
            warp->at_barrier &= ~(Mask{1} << lane);
            warp->runnable |= Mask{1} << lane;
        }
    }
}

// A count is one of whole warps: lanes that a warp lacks, or that have exited, count with those that arrived.
unsigned absent(const Block& block, unsigned id) {
    unsigned count = 0;
    for (const std::unique_ptr<Warp>& warp : block.warps) {
        bool here = false;
        for (Mask m = warp->at_barrier; m != 0; m &= m - 1)
            here |= warp->barrier[first(m)] == id;
        count += here ? kLanes - static_cast<unsigned>(__builtin_popcount(warp->live)) : 0;
    }
    return count;
}

Handler kind_of_barrier(bool waits) {
    return waits ? arrive<true> : arrive<false>;
}

void decode_barrier(Decode& decode) {
    if (decode.take("warp")) {
        decode.take("sync");
        const s32 members = decode.value(0, Type::B32);
        Op& op = decode.emit(meet);
        op.flow = Flow::Other;
        op.e = members;
        op.detail = kSync;
        return;
    }
    if (decode.take("cluster"))
        Decode::unknown("clusters have no barrier here");
    decode.take("cta");
    decode.take("aligned");
    const bool arrives = decode.take("arrive"), reduces = decode.take("red");
    decode.take("sync");
    u8 kind = kNoReduction;
    if (reduces) {
        kind = decode.take("popc") ? kPopulation : decode.take("and") ? kAnd : decode.take("or") ? kOr : kNoReduction;
        decode.maybe_type();
    }
    const std::size_t at = reduces ? 1 : 0, last = decode.operands() - (reduces ? 1 : 0);
    const s32 d = reduces ? decode.destination(0) : kNone,
              truth = reduces ? decode.predicate(decode.operand(last)) : kNone;
    const s32 id = decode.value(at, Type::U32), count = at + 1 < last ? decode.value(at + 1, Type::U32) : kNone;
    Op& op = decode.emit(kind_of_barrier(!arrives));
    op.flow = Flow::Other;
    op.a = id;
    op.b = count;
    op.c = truth;
    op.d = d;
    op.detail = kind;
}

void fence(Warp&, const Op&, Mask) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

struct Word {
    std::string_view name;
    Kind kind;
};

u8 take_kind(Decode& decode, std::span<const Word> words) {
    for (const Word& word : words)
        if (decode.take(word.name))
            return word.kind;
    Decode::unknown("its mode is not known");
}

Op& emit_meeting(Decode& decode, u8 kind, const Operand* d, const Operand& members) {
    const s32 mask = decode.value(members, Type::B32);
    const s32 first = d != nullptr ? decode.destination(*d) : kNone;
    const s32 second = d != nullptr && !d->parts.empty() ? decode.destination(d->parts[0]) : kNone;
    Op& op = decode.emit(meet);
    op.flow = Flow::Other;
    op.detail = kind;
    op.d = first;
    op.d2 = second;
    op.e = mask;
    op.immediate = -1;
    return op;
}

void decode_shuffle(Decode& decode) {
    static constexpr Word kModes[] = {
        {"up", kShuffleUp}, {"down", kShuffleDown}, {"bfly", kShuffleButterfly}, {"idx", kShuffleIndex}};
    const bool synchronous = decode.take("sync");
    const u8 kind = take_kind(decode, kModes);
    decode.take("b32");
    decode.expect_operands(synchronous ? 5 : 4);
    if (!synchronous)
        Decode::unknown("without .sync there is none from compute capability 7.0 on");
    const s32 a = decode.value(1, Type::B32), b = decode.value(2, Type::B32), c = decode.value(3, Type::B32);
    Op& op = emit_meeting(decode, kind, &decode.operand(0), decode.operand(4));
    op.a = a;
    op.b = b;
    op.c = c;
}

void decode_vote(Decode& decode) {
    static constexpr Word kModes[] = {{"all", kAll}, {"any", kAny}, {"uni", kUniform}, {"ballot", kBallot}};
    if (!decode.take("sync"))
        Decode::unknown("without .sync there is none from compute capability 7.0 on");
    const u8 kind = take_kind(decode, kModes);
    decode.maybe_type();
    decode.expect_operands(3);
    const s32 a = decode.predicate(decode.operand(1));
    emit_meeting(decode, kind, &decode.operand(0), decode.operand(2)).a = a;
}

void decode_match(Decode& decode) {
    static constexpr Word kModes[] = {{"any", kMatchAny}, {"all", kMatchAll}};
    decode.take("sync");
    const u8 kind = take_kind(decode, kModes);
    const Type type = decode.take_type();
    decode.expect_operands(3);
    const s32 a = decode.value(1, type);
    Op& op = emit_meeting(decode, kind, &decode.operand(0), decode.operand(2));
    op.a = a;
    op.immediate = bytes_of(type) == 4 ? 0xffffffff : -1;  // a register may hold a sign above
}

void decode_redux(Decode& decode) {
    static constexpr Word kModes[] = {{"add", kReduceAdd}, {"min", kReduceMin}, {"max", kReduceMax},
                                      {"and", kReduceAnd}, {"or", kReduceOr},   {"xor", kReduceXor}};
    decode.take("sync");
    u8 kind = take_kind(decode, kModes);
    const Type type = decode.take_type();
    if (is_float(type))
        Decode::unknown("there is none of this type");
    if (type == Type::S32 && (kind == kReduceMin || kind == kReduceMax))
        kind = kind == kReduceMin ? kReduceMinSigned : kReduceMaxSigned;
    decode.expect_operands(3);
    const s32 a = decode.value(1, type);
    emit_meeting(decode, kind, &decode.operand(0), decode.operand(2)).a = a;
}

void active_mask(Warp& warp, const Op& op, Mask mask) {
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = mask; });
}

}  // namespace

void check_meetings(Warp& warp) {
    for (Mask open = warp.at_meeting; open != 0;) {
        const Meeting one = warp.meetings[first(open)];
        const Mask needed = one.members & warp.live;
        Mask here = 0, trues = 0;
        lanes(needed & warp.at_meeting, [&](unsigned i) {
            const Meeting& other = warp.meetings[i];
            here |= Mask{other.members == one.members && other.op->detail == one.op->detail} << i;
            trues |= static_cast<Mask>(other.a & 1) << i;
        });
        open &= ~(here | (open & (0 - open)));
        if (here != needed)
            continue;
        trues &= here;
        lanes(here, [&](unsigned i) { finish(warp, i, here, trues); });
        warp.at_meeting &= ~here;
        warp.runnable |= here;
    }
}

void check_barriers(Block& block) {
    for (unsigned id = 0; id < block.barriers.size(); ++id) {
        const Barrier& barrier = block.barriers[id];
        if (barrier.arrived == 0)
            continue;
        const bool complete = barrier.expected == 0 ? barrier.arrived >= block.live
                                                    : barrier.arrived + absent(block, id) >= barrier.expected;
        if (complete)
            release(block, id);
    }
}

bool decode_sync(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name == "bar" || name == "barrier") {
        decode_barrier(decode);
    } else if (name == "membar" || name == "fence") {
        decode.emit(fence);
        return true;
    } else if (name == "shfl") {
        decode_shuffle(decode);
    } else if (name == "vote") {
        decode_vote(decode);
    } else if (name == "match") {
        decode_match(decode);
    } else if (name == "redux") {
        decode_redux(decode);
    } else if (name == "elect") {
        decode.take("sync");
        decode.expect_operands(2);
        emit_meeting(decode, kElect, &decode.operand(0), decode.operand(1));
    } else if (name == "activemask") {
        decode.take("b32");
        const s32 d = decode.destination(0);
        decode.emit(active_mask).d = d;
    } else {
        return false;
    }
    decode.finish();
    return true;
}

}  // namespace vgpu::ptx
