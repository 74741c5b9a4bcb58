// mov, with the packing and unpacking of vectors, and selp: PTX ISA, "mov" and "selp".
#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

void move(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    if (mask == kAllLanes)
        std::memmove(d, a, kLanes * sizeof *d);
    else
        lanes(mask, [&](unsigned i) { d[i] = a[i]; });
}

void select(Warp& warp, const Op& op, Mask mask) {
    const u64 *a = warp.get(op.a), *b = warp.get(op.b), *p = warp.get(op.c);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = (p[i] & 1) != 0 ? a[i] : b[i]; });
}

u64 low_bits(unsigned bytes) {
    return bytes >= 8 ? ~u64{0} : (u64{1} << (8 * bytes)) - 1;
}

// `detail` is the bytes of an element; the whole is one slot, or two from `d` on for 128 bits.
void pack(Warp& warp, const Op& op, Mask mask) {
    const unsigned bytes = op.detail;
    lanes(mask, [&](unsigned i) {
        u64 words[2] = {0, 0};
        for (unsigned k = 0; k < op.list->size(); ++k)
            words[k * bytes / 8] |= (warp.get((*op.list)[k])[i] & low_bits(bytes)) << (8 * (k * bytes % 8));
        warp.at(op.d)[i] = words[0];
        if (op.d2 != kNone)
            warp.at(op.d2)[i] = words[1];
    });
}

void unpack(Warp& warp, const Op& op, Mask mask) {
    const unsigned bytes = op.detail;
    lanes(mask, [&](unsigned i) {
        const u64 words[2] = {warp.get(op.a)[i], op.b != kNone ? warp.get(op.b)[i] : 0};
        for (unsigned k = 0; k < op.list->size(); ++k)
            warp.at((*op.list)[k])[i] = words[k * bytes / 8] >> (8 * (k * bytes % 8)) & low_bits(bytes);
    });
}

void decode_vector(Decode& decode, Type type) {
    const bool packs = decode.operand(1).kind == Operand::Kind::Vector;
    const Operand& parts = decode.operand(packs ? 1 : 0);
    const unsigned bytes = bytes_of(type), count = static_cast<unsigned>(parts.parts.size());
    if (count == 0 || bytes % count != 0)
        Decode::unknown("the vector does not divide its type");
    std::vector<s32> list;
    for (const Operand& part : parts.parts)
        list.push_back(packs ? decode.value(part, Type::B64) : decode.destination(part));
    const s32 whole = packs ? decode.destination(0) : decode.value(1, type);
    Op& op = decode.emit(packs ? pack : unpack);
    (packs ? op.d : op.a) = whole;
    if (type == Type::B128)
        (packs ? op.d2 : op.b) = whole + 1;
    op.detail = static_cast<u8>(bytes / count);
    op.list = decode.program.keep(std::move(list));
}

void decode_mov(Decode& decode) {
    const Type type = decode.take_type();
    decode.expect_operands(2);
    if (decode.operand(0).kind == Operand::Kind::Vector || decode.operand(1).kind == Operand::Kind::Vector) {
        decode_vector(decode, type);
        return;
    }
    const s32 d = decode.destination(0), a = decode.value(1, type);
    for (s32 half = 0; half < (type == Type::B128 ? 2 : 1); ++half) {
        Op& op = decode.emit(move);
        op.d = d + half;
        op.a = a + half;
    }
}

void decode_selp(Decode& decode) {
    const Type type = decode.take_type();
    decode.expect_operands(4);
    const s32 d = decode.destination(0), a = decode.value(1, type), b = decode.value(2, type);
    const s32 p = decode.predicate(decode.operand(3));
    Op& op = decode.emit(select);
    op.d = d;
    op.a = a;
    op.b = b;
    op.c = p;
}

}  // namespace

bool decode_move(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name == "mov")
        decode_mov(decode);
    else if (name == "selp")
        decode_selp(decode);
    else
        return false;
    decode.finish();
    return true;
}

}  // namespace vgpu::ptx
