// Runs one warp. Each lane has a pc of its own. Of the groups of lanes that agree on theirs, the one in the deepest
// call and at the lowest pc runs, so that groups which take different ways meet where the ways do; now and then the one
// that has waited longest runs instead, so that lanes which spin do not keep others from what they spin for.
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

constexpr u32 kNever = ~u32{0};
constexpr unsigned kPatience = 256;  // instructions before the group that has waited longest runs
constexpr unsigned kTurn = 256;      // and how many it runs

struct Group {
    Mask lanes = 0;
    u32 limit = kNever;  // the pc at which it meets another
};

unsigned lowest(const Warp& warp) {
    unsigned best = static_cast<unsigned>(__builtin_ctz(warp.runnable));
    for (Mask m = warp.runnable & (warp.runnable - 1); m != 0; m &= m - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(m));
        if (warp.base[lane] > warp.base[best] || (warp.base[lane] == warp.base[best] && warp.pc[lane] < warp.pc[best]))
            best = lane;
    }
    return best;
}

unsigned oldest(const Warp& warp) {
    unsigned best = static_cast<unsigned>(__builtin_ctz(warp.runnable));
    for (Mask m = warp.runnable & (warp.runnable - 1); m != 0; m &= m - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(m));
        if (warp.ran[lane] < warp.ran[best])
            best = lane;
    }
    return best;
}

Group group_of(const Warp& warp, unsigned leader) {
    Group group;
    const u32 pc = warp.pc[leader], base = warp.base[leader];
    for (Mask m = warp.runnable; m != 0; m &= m - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(m));
        if (warp.base[lane] != base)
            continue;
        if (warp.pc[lane] == pc)
            group.lanes |= Mask{1} << lane;
        else if (warp.pc[lane] > pc && warp.pc[lane] < group.limit)
            group.limit = warp.pc[lane];
    }
    return group;
}

Mask guard_mask(Warp& warp, const Op& op) {
    const u64* p = warp.get(op.guard);
    const u64 flip = op.guard_negated;
    Mask mask = 0;
    for (unsigned i = 0; i < kLanes; ++i)
        mask |= static_cast<Mask>((p[i] & 1) ^ flip) << i;
    return mask;
}

void set_pcs(Warp& warp, Mask mask, u32 pc) {
    for (; mask != 0; mask &= mask - 1)
        warp.pc[static_cast<unsigned>(__builtin_ctz(mask))] = pc;
}

// Runs the group until it parts, waits, meets another, or has run for `budget` instructions.
unsigned run_group(Warp& warp, const Group& group, unsigned leader, unsigned budget) {
    const Op* code = warp.grid->program->code_.data();
    u32 pc = warp.pc[leader];
    warp.active = group.lanes;
    warp.frame = warp.lane_frame(leader);
    unsigned steps = 0;
    while (steps < budget) {
        const Op& op = code[pc];
        Mask mask = group.lanes;
        warp.now = pc;
        ++steps;
        if (op.guard != kNone)
            mask &= guard_mask(warp, op);
        if (op.flow == Flow::Straight) {
            if (mask != 0)
                op.run(warp, op, mask);
            ++pc;
        } else if (op.flow == Flow::Branch) {
            if (mask != 0 && mask != group.lanes) {
                set_pcs(warp, mask, op.target);
                set_pcs(warp, group.lanes & ~mask, pc + 1);
                return steps;
            }
            pc = mask != 0 ? op.target : pc + 1;
        } else if (mask == 0) {
            ++pc;
        } else {
            set_pcs(warp, group.lanes & ~mask, pc + 1);
            op.run(warp, op, mask);
            return steps;
        }
        if (pc >= group.limit)
            break;
    }
    set_pcs(warp, group.lanes, pc);
    return steps;
}

}  // namespace

bool run_warp(Warp& warp, unsigned budget) {
    bool any = false;
    warp.yielded = false;
    for (unsigned steps = 0; steps < budget && warp.runnable != 0 && !warp.yielded;) {
        any = true;
        const bool wait_no_more = warp.patience >= kPatience;
        const unsigned leader = wait_no_more ? oldest(warp) : lowest(warp);
        const Group group = group_of(warp, leader);
        const bool alone = group.lanes == warp.runnable;
        const unsigned ran = run_group(warp, group, leader, alone ? budget - steps : kTurn);
        warp.patience = alone || wait_no_more ? 0 : warp.patience + ran;
        warp.grid->steps += ran;
        steps += ran;
        for (Mask m = group.lanes; m != 0; m &= m - 1)
            warp.ran[static_cast<unsigned>(__builtin_ctz(m))] = warp.grid->steps;
    }
    return any;
}

}  // namespace vgpu::ptx
