// Branches, calls and ends: PTX ISA, "Control Flow Instructions".
#include <algorithm>
#include <bit>

#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

void exit_threads(Warp& warp, const Op&, Mask mask) {
    exit_lanes(warp, mask);
}
void return_threads(Warp& warp, const Op&, Mask mask) {
    return_lanes(warp, mask);
}
void trap(Warp&, const Op&, Mask mask) {
    throw Fault{Outcome::Kind::Trap, "the thread trapped", static_cast<unsigned>(__builtin_ctz(mask))};
}
void nothing(Warp&, const Op&, Mask) {}
void sleep_threads(Warp& warp, const Op&, Mask mask) {
    warp.go_on(mask);
    warp.yielded = true;
}

void branch_by_index(Warp& warp, const Op& op, Mask mask) {
    const u64* index = warp.get(op.a);
    lanes(mask, [&](unsigned i) {
        const u32 which = static_cast<u32>(index[i]);
        if (which >= op.list->size())
            throw Fault{Outcome::Kind::IllegalInstruction, "the branch has no target " + std::to_string(which), i};
        warp.pc[i] = warp.grid->program->starts_[static_cast<u32>((*op.list)[which])];
    });
}

void copy_value(Warp& warp, unsigned lane, const Place& from, u32 from_base, u32 from_sp, const Place& to, u32 to_base,
                u32 to_sp) {
    std::byte* stack = warp.stacks[lane].data();
    const auto slot = [&](u32 base, s32 slot) -> u64& {
        return warp.registers[(std::size_t{base} + static_cast<std::size_t>(slot)) * kLanes + lane];
    };
    const u32 bytes = std::min(from.bytes == 0 ? to.bytes : from.bytes, to.bytes == 0 ? from.bytes : to.bytes);
    u64 words[2] = {0, 0};
    const std::byte* source = reinterpret_cast<const std::byte*>(words);
    if (!from.in_register) {
        source = stack + from_sp + from.offset;
    } else if (from.slot < 0) {
        words[0] = warp.get(from.slot)[lane];
    } else {
        words[0] = slot(from_base, from.slot);
        words[1] = bytes > 8 ? slot(from_base, from.slot + 1) : 0;
    }
    if (!to.in_register) {
        std::memmove(stack + to_sp + to.offset, source, bytes);
        return;
    }
    u64 wide[2] = {0, 0};
    std::memcpy(wide, source, std::min<u32>(bytes, 16));
    slot(to_base, to.slot) = wide[0];
    if (bytes > 8)
        slot(to_base, to.slot + 1) = wide[1];
}

void enter(Warp& warp, unsigned lane, const Call& call, u32 index) {
    const Program& program = *warp.grid->program;
    const Routine& caller = program.routines_[warp.routine[lane]];
    const Routine& callee = program.routines_[index];
    const Frame frame{warp.now + 1, warp.base[lane], warp.sp[lane], warp.routine[lane], &call};
    const u32 base = frame.base + caller.slots, sp = frame.sp + std::max(caller.frame_bytes, 16u);
    if (call.arguments.size() != callee.parameters.size())
        throw Fault{Outcome::Kind::IllegalInstruction, callee.name + " takes other arguments", lane};
    if (sp + callee.frame_bytes > warp.grid->stack_bytes)
        throw Fault{Outcome::Kind::Trap, "the stack of the thread ran out", lane};
    warp.make_stack(lane, sp + callee.frame_bytes);
    if (const std::size_t needed = (std::size_t{base} + callee.slots) * kLanes; warp.registers.size() < needed) {
        warp.registers.resize(needed + needed / 2);
        warp.frame = warp.lane_frame(lane);
    }
    for (std::size_t i = 0; i < call.arguments.size(); ++i)
        copy_value(warp, lane, call.arguments[i], frame.base, frame.sp, callee.parameters[i], base, sp);
    warp.frames[lane].push_back(frame);
    warp.base[lane] = base;
    warp.sp[lane] = sp;
    warp.routine[lane] = index;
    warp.pc[lane] = callee.pc;
}

u64 argument(Warp& warp, unsigned lane, const Call& call, std::size_t i) {
    if (i >= call.arguments.size())
        throw Fault{Outcome::Kind::IllegalInstruction, "an argument is missing", lane};
    const Place& place = call.arguments[i];
    if (place.in_register)
        return warp.lane_value(lane, place.slot);
    u64 value = 0;
    std::memcpy(&value, warp.in_frame(lane, place.offset, place.bytes), std::min<u32>(place.bytes, 8));
    return value;
}

constexpr u64 kGridScope = 1;     // cudaCGScopeGrid
constexpr u64 kInvalidValue = 1;  // cudaErrorInvalidValue

// free() of a null pointer does nothing; malloc and the like return one where there is no room.
u64 allocate(Warp& warp, u64 bytes, u64 alignment) {
    Heap* const heap = warp.grid->around->heap;
    return heap == nullptr || bytes == 0 || !std::has_single_bit(alignment) ? 0 : heap->allocate(bytes, alignment);
}

void release(Warp& warp, unsigned lane, u64 address) {
    Heap* const heap = warp.grid->around->heap;
    if (address != 0 && (heap == nullptr || !heap->release(address)))
        throw Fault{Outcome::Kind::Trap, "free() of an address that malloc() has not given, or that was freed", lane};
}

// Whether all threads of the grid that have not exited are in the barrier, or were since the lane came.
bool pass_grid_barrier(Warp& warp, unsigned lane) {
    Grid& grid = *warp.grid;
    const Mask bit = Mask{1} << lane;
    if ((warp.at_grid_barrier & bit) == 0) {
        warp.at_grid_barrier |= bit;
        warp.grid_barrier[lane] = grid.passed;
        ++grid.arrived;
    }
    if (warp.grid_barrier[lane] == grid.passed && grid.arrived + grid.exited >= grid.threads) {
        ++grid.passed;
        grid.arrived = 0;
    }
    if (warp.grid_barrier[lane] == grid.passed)
        return false;
    warp.at_grid_barrier &= ~bit;
    return true;
}

u64 value_of_builtin(Warp& warp, unsigned lane, const Call& call, const Routine& routine) {
    const u64 first = argument(warp, lane, call, 0);
    switch (routine.builtin) {
        case Builtin::Malloc:
            return allocate(warp, first, 1);
        case Builtin::AlignedMalloc:
            return allocate(warp, first, argument(warp, lane, call, 1));
        case Builtin::Free:
            release(warp, lane, first);
            return 0;
        case Builtin::GridHandle:
            return warp.grid->shape.cooperative && first == kGridScope ? 1 : 0;
        case Builtin::GridSynchronize:
            return first == 0 ? kInvalidValue : 0;
        default:
            return print_formatted(warp, lane, first, argument(warp, lane, call, 1));
    }
}

// The functions that CUDA's device code calls without defining them.
void call_builtin(Warp& warp, unsigned lane, const Call& call, const Routine& routine) {
    if (routine.builtin == Builtin::Assert)
        throw Fault{Outcome::Kind::Assert,
                    read_text(warp, lane, argument(warp, lane, call, 1)) + ":" +
                        std::to_string(static_cast<u32>(argument(warp, lane, call, 2))) + ": " +
                        read_text(warp, lane, argument(warp, lane, call, 3)) + ": assertion \"" +
                        read_text(warp, lane, argument(warp, lane, call, 0)) + "\" failed",
                    lane};
    if (routine.builtin == Builtin::GridSynchronize && argument(warp, lane, call, 0) != 0 &&
        !pass_grid_barrier(warp, lane)) {
        warp.pc[lane] = warp.now;  // the lane makes the call again
        warp.yielded = true;
        return;
    }
    const u64 value = value_of_builtin(warp, lane, call, routine);
    warp.pc[lane] = warp.now + 1;
    if (call.results.empty())
        return;
    const Place& place = call.results[0];
    if (place.in_register)
        warp.set_lane_value(lane, place.slot, value);
    else
        std::memcpy(warp.in_frame(lane, place.offset, place.bytes), &value, std::min<u32>(place.bytes, 8));
}

void call_function(Warp& warp, const Op& op, Mask mask) {
    const Program& program = *warp.grid->program;
    const Call& call = program.calls_[op.target];
    lanes(mask, [&](unsigned i) {
        u32 index = call.function;
        if (op.a != kNone) {
            const u64 address = warp.lane_value(i, op.a);
            if (program.routine(address) == nullptr || program.routine(address)->entry)
                throw Fault{Outcome::Kind::InvalidPc, "the call's target is no function", i};
            index = static_cast<u32>(address - kCodeWindow);
        }
        const Routine& routine = program.routines_[index];
        if (routine.builtin != Builtin::None)
            call_builtin(warp, i, call, routine);
        else if (!routine.defined)
            throw Fault{Outcome::Kind::InvalidPc, routine.name + " is not defined", i};
        else
            enter(warp, i, call, index);
    });
}

Place call_place(Decode& decode, const Operand& operand, bool result) {
    Place place;
    if (operand.kind == Operand::Kind::Name) {
        const Symbol symbol = decode.names.find(operand.name, decode.instruction.scope);
        if (symbol.kind == Symbol::Kind::Frame && symbol.parameter) {
            place.offset = symbol.offset;
            place.bytes = symbol.bytes;
            return place;
        }
    }
    place.in_register = true;
    place.slot = result ? decode.destination(operand) : decode.value(operand, Type::B64);
    return place;
}

void decode_call(Decode& decode) {
    decode.take("uni");
    Call& call = decode.program.calls_.emplace_back();
    std::size_t at = 0;
    if (decode.operand(0).kind == Operand::Kind::List)
        for (const Operand& result : decode.operand(at++).parts)
            call.results.push_back(call_place(decode, result, true));
    const Operand& target = decode.operand(at++);
    if (at < decode.operands() && decode.operand(at).kind == Operand::Kind::List)
        for (const Operand& argument : decode.operand(at++).parts)
            call.arguments.push_back(call_place(decode, argument, false));
    const Symbol symbol = decode.names.find(target.name, decode.instruction.scope);
    s32 slot = kNone;
    if (symbol.kind == Symbol::Kind::Function)
        call.function = symbol.offset;
    else
        slot = decode.value(target, Type::B64);
    Op& op = decode.emit(call_function);
    op.flow = Flow::Other;
    op.a = slot;
    op.target = static_cast<u32>(decode.program.calls_.size() - 1);
}

u32 find_label(Decode& decode, std::string_view name) {
    const std::optional<u32> label = decode.names.label(name, decode.instruction.scope);
    if (!label)
        Decode::unknown("there is no label \"" + std::string(name) + "\"");
    return *label;
}

void decode_branch(Decode& decode) {
    decode.take("uni");
    decode.expect_operands(1);
    const u32 target = find_label(decode, decode.operand(0).name);
    Op& op = decode.emit(nothing);
    op.flow = Flow::Branch;
    op.target = target;
}

void decode_indexed(Decode& decode) {
    decode.take("idx");
    decode.take("uni");
    decode.expect_operands(2);
    const auto* names = decode.names.targets(decode.operand(1).name, decode.instruction.scope);
    if (names == nullptr)
        Decode::unknown("there is no list of targets of this name");
    std::vector<s32> targets;
    for (const std::string_view name : *names)
        targets.push_back(static_cast<s32>(find_label(decode, name)));
    const s32 index = decode.value(0, Type::U32);
    Op& op = decode.emit(branch_by_index);
    op.flow = Flow::Other;
    op.a = index;
    op.list = decode.program.keep(std::move(targets));
}

}  // namespace

void return_lanes(Warp& warp, Mask mask) {
    const Program& program = *warp.grid->program;
    Mask ended = 0;
    lanes(mask, [&](unsigned i) {
        if (warp.frames[i].empty()) {
            ended |= Mask{1} << i;
            return;
        }
        const Frame frame = warp.frames[i].back();
        const Routine& callee = program.routines_[warp.routine[i]];
        warp.frames[i].pop_back();
        // A callee without a result, declared with one elsewhere, leaves the caller's as it is: linkers let that pass.
        for (std::size_t k = 0; k < std::min(frame.call->results.size(), callee.results.size()); ++k)
            copy_value(warp, i, callee.results[k], warp.base[i], warp.sp[i], frame.call->results[k], frame.base,
                       frame.sp);
        warp.base[i] = frame.base;
        warp.sp[i] = frame.sp;
        warp.routine[i] = frame.routine;
        warp.pc[i] = frame.return_pc;
    });
    if (ended != 0)
        exit_lanes(warp, ended);
}

bool decode_flow(Decode& decode) {
    const std::string_view name = decode.instruction.opcode;
    if (name == "bra") {
        decode_branch(decode);
    } else if (name == "brx") {
        decode_indexed(decode);
    } else if (name == "call") {
        decode_call(decode);
    } else if (name == "ret" || name == "exit") {
        decode.take("uni");
        decode.emit(name == "ret" ? return_threads : exit_threads).flow = Flow::Other;
    } else if (name == "trap") {
        decode.emit(trap);
    } else if (name == "brkpt" || name == "griddepcontrol" || name == "pmevent" || name == "setmaxnreg") {
        // Each is a hint, or for tools, where one grid runs at a time (PTX ISA, "Miscellaneous Instructions").
        decode.emit(nothing);
        return true;
    } else if (name == "nanosleep") {
        decode.take("u32");
        decode.emit(sleep_threads).flow = Flow::Other;
    } else {
        return false;
    }
    decode.finish();
    return true;
}

}  // namespace vgpu::ptx
