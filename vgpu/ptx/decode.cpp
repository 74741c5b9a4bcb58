#include "vgpu/ptx/decode.hpp"

#include <algorithm>
#include <bit>

#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

struct TypeName {
    std::string_view name;
    Type type;
    unsigned bytes;
};
constexpr TypeName kTypes[] = {
    {"pred", Type::Pred, 1},   {"b8", Type::B8, 1},         {"b16", Type::B16, 2},       {"b32", Type::B32, 4},
    {"b64", Type::B64, 8},     {"b128", Type::B128, 16},    {"u8", Type::U8, 1},         {"u16", Type::U16, 2},
    {"u32", Type::U32, 4},     {"u64", Type::U64, 8},       {"s8", Type::S8, 1},         {"s16", Type::S16, 2},
    {"s32", Type::S32, 4},     {"s64", Type::S64, 8},       {"f16", Type::F16, 2},       {"f16x2", Type::F16x2, 4},
    {"bf16", Type::BF16, 2},   {"bf16x2", Type::BF16x2, 4}, {"f32", Type::F32, 4},       {"f64", Type::F64, 8},
    {"tf32", Type::TF32, 4},   {"e4m3x2", Type::E4M3x2, 2}, {"e5m2x2", Type::E5M2x2, 2}, {"u16x2", Type::U16x2, 4},
    {"s16x2", Type::S16x2, 4},
};

void negate(Warp& warp, const Op& op, Mask mask) {
    const u64* a = warp.get(op.a);
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = (a[i] & 1) ^ 1; });
}

void frame_address(Warp& warp, const Op& op, Mask mask) {
    u64* d = warp.at(op.d);
    const u64 window = op.detail != 0 ? kLocalWindow : 0;
    lanes(mask, [&](unsigned i) { d[i] = window + warp.sp[i] + static_cast<u64>(op.immediate); });
}

}  // namespace

Type type_of(std::string_view name) {
    const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& one) { return one.name == name; });
    return found == std::end(kTypes) ? Type::None : found->type;
}

unsigned bytes_of(Type type) {
    const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& one) { return one.type == type; });
    return found == std::end(kTypes) ? 0 : found->bytes;
}

bool is_signed(Type type) {
    return type >= Type::S8 && type <= Type::S64;
}
bool is_float(Type type) {
    return type >= Type::F16 && type <= Type::F64;
}

const Kernel* Program::kernel(std::string_view name) const {
    for (const Routine& routine : routines_)
        if (routine.entry && routine.defined && routine.name == name)
            return &routine.kernel;
    return nullptr;
}

std::vector<std::string> Program::kernels() const {
    std::vector<std::string> names;
    for (const Routine& routine : routines_)
        if (routine.entry && routine.defined)
            names.push_back(routine.name);
    return names;
}

bool Program::uses_heap() const {
    return std::any_of(routines_.begin(), routines_.end(), [](const Routine& routine) {
        return routine.builtin >= Builtin::Malloc && routine.builtin <= Builtin::Free;
    });
}

const Routine* Program::routine(u64 address) const {
    return address - kCodeWindow < routines_.size() ? &routines_[address - kCodeWindow] : nullptr;
}

s32 Program::constant(const Constant& constant) {
    const auto [found, inserted] = numbers_.try_emplace(constant, ~static_cast<s32>(constants_.size()));
    if (inserted)
        constants_.push_back(constant);
    return found->second;
}

bool Decode::take(std::string_view modifier) {
    const auto found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
    if (found == modifiers_.end())
        return false;
    modifiers_.erase(found);
    return true;
}

std::optional<std::string_view> Decode::take_like(std::string_view start) {
    for (auto it = modifiers_.begin(); it != modifiers_.end(); ++it) {
        if (it->starts_with(start)) {
            const std::string_view rest = it->substr(start.size());
            modifiers_.erase(it);
            return rest;
        }
    }
    return {};
}

Type Decode::maybe_type() {
    for (auto it = modifiers_.begin(); it != modifiers_.end(); ++it) {
        const Type type = type_of(*it);
        if (type != Type::None) {
            modifiers_.erase(it);
            return type;
        }
    }
    return Type::None;
}

Type Decode::take_type() {
    const Type type = maybe_type();
    if (type == Type::None)
        unknown("it has no type that is known");
    return type;
}

Rounding Decode::take_rounding(Rounding otherwise) {
    if (take("rn") || take("rni"))
        return Rounding::Nearest;
    if (take("rz") || take("rzi"))
        return Rounding::Zero;
    if (take("rm") || take("rmi"))
        return Rounding::Down;
    if (take("rp") || take("rpi"))
        return Rounding::Up;
    return take("rna") ? Rounding::NearestAway : otherwise;
}

void Decode::expect_operands(std::size_t least, std::size_t most) const {
    if (operands() < least || operands() > std::max(least, most))
        unknown("it has " + std::to_string(operands()) + " operands");
}

void Decode::finish() const {
    if (!modifiers_.empty())
        unknown("." + std::string(modifiers_.front()) + " is not known here");
}

const Operand& Decode::operand(std::size_t i) const {
    if (i >= operands())
        unknown("an operand is missing");
    return instruction.operands[i];
}

Op& Decode::emit(Handler handler) {
    Op& op = out_.emplace_back();
    op.run = handler;
    op.source = source_;
    return op;
}

s32 Decode::immediate(const Operand& operand, Type type) {
    u64 bits = operand.value;
    if (type == Type::F64 && operand.kind == Operand::Kind::Float32)
        bits = to_slot(static_cast<double>(from_slot<float>(bits)));
    else if (bytes_of(type) == 4 && operand.kind == Operand::Kind::Float64)
        bits = to_slot(static_cast<float>(from_slot<double>(bits)));
    return constant(bits);
}

s32 Decode::special(std::string_view name, std::string_view component) {
    if (name == "WARP_SZ")
        return constant(kLanes);
    const Handler handler = special_register(name, component);
    if (handler == nullptr)
        return kNone;
    const s32 slot = names.temporary();
    emit(handler).d = slot;
    return slot;
}

s32 Decode::symbol_address(const Symbol& symbol, u64 addend) {
    switch (symbol.kind) {
        case Symbol::Kind::Frame: {
            Op& op = emit(frame_address);
            op.d = names.temporary();
            op.immediate = static_cast<s64>(symbol.offset + addend);
            op.detail = symbol.parameter;
            return op.d;
        }
        case Symbol::Kind::KernelParameter:
            return constant(kParameterWindow + symbol.offset + addend);
        case Symbol::Kind::Shared:
            return constant(symbol.offset + addend);
        case Symbol::Kind::DynamicShared:
            return program.constant({Constant::Kind::DynamicShared, addend, 0});
        case Symbol::Kind::Function:
            return constant(kCodeWindow + symbol.offset + addend);
        default:
            return program.constant({Constant::Kind::Variable, addend, symbol.offset});
    }
}

s32 Decode::value(const Operand& operand, Type type) {
    switch (operand.kind) {
        case Operand::Kind::Integer:
        case Operand::Kind::Float32:
        case Operand::Kind::Float64:
            return immediate(operand, type);
        case Operand::Kind::Name:
            break;
        default:
            unknown("an operand is of a kind that is not known here");
    }
    if (type == Type::Pred)
        return predicate(operand);
    const Symbol symbol = names.find(operand.name, instruction.scope);
    if (symbol.kind == Symbol::Kind::Register) {
        if (operand.value != 0 || !operand.component.empty())
            unknown("nothing can be added to a register here");
        return symbol.slot;
    }
    if (symbol.kind != Symbol::Kind::None)
        return symbol_address(symbol, operand.value);
    const s32 slot = special(operand.name, operand.component);
    if (slot == kNone)
        unknown("\"" + std::string(operand.name) + "\" is not known");
    return slot;
}

s32 Decode::predicate(const Operand& operand) {
    if (operand.kind == Operand::Kind::Integer)
        return constant((operand.value != 0) != operand.negated);
    const Symbol symbol = names.find(operand.name, instruction.scope);
    if (symbol.kind != Symbol::Kind::Register)
        unknown("an operand is no predicate");
    if (!operand.negated)
        return symbol.slot;
    Op& op = emit(negate);
    op.a = symbol.slot;
    return op.d = names.temporary();
}

s32 Decode::destination(const Operand& operand) {
    if (operand.kind == Operand::Kind::Sink)
        return names.temporary();
    if (operand.kind != Operand::Kind::Name)
        unknown("its destination is no register");
    const Symbol symbol = names.find(operand.name, instruction.scope);
    if (symbol.kind != Symbol::Kind::Register)
        unknown("\"" + std::string(operand.name) + "\" is no register");
    return symbol.slot;
}

std::string_view Decode::take_space() {
    for (const std::string_view space : {"global", "shared", "shared::cta", "shared::cluster", "local", "const",
                                         "param", "param::entry", "param::func"})
        if (take(space))
            return space.substr(0, space.find(':'));
    return {};
}

void Decode::address(Op& op, const Operand& operand, std::string_view space) {
    if (operand.kind != Operand::Kind::Address || !operand.parts.empty())
        unknown("its address is of a kind that is not known here");
    op.space = space == "shared" ? Space::Shared : space == "local" ? Space::Local : Space::Generic;
    op.immediate = static_cast<s64>(operand.value);
    op.a = constant(0);
    if (operand.name.empty())
        return;
    const Symbol symbol = names.find(operand.name, instruction.scope);
    if (symbol.kind == Symbol::Kind::Register) {
        op.a = symbol.slot;
    } else if (symbol.kind == Symbol::Kind::Frame) {
        op.space = Space::Frame;
        op.immediate += symbol.offset;
    } else if (symbol.kind == Symbol::Kind::KernelParameter) {
        op.space = Space::KernelParameter;
        op.immediate += symbol.offset;
    } else if (symbol.kind != Symbol::Kind::None) {
        op.a = symbol_address(symbol, 0);
        if (symbol.kind == Symbol::Kind::Shared || symbol.kind == Symbol::Kind::DynamicShared)
            op.space = Space::Shared;
    } else {
        unknown("\"" + std::string(operand.name) + "\" is not known");
    }
}

}  // namespace vgpu::ptx
