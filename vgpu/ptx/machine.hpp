// What a launch consists of while it runs. Handlers (lanes.hpp) see a warp.
#pragma once

#include <cstring>
#include <memory>

#include "vgpu/ptx/code.hpp"

namespace vgpu::ptx {

struct Fault {
    Outcome::Kind kind;
    std::string text;
    unsigned lane = 0;
};

struct Grid {
    const Program* program = nullptr;
    const Routine* kernel = nullptr;
    const Surroundings* around = nullptr;
    Shape shape;
    const std::byte* parameters = nullptr;
    std::vector<u64> constants;  // each for all lanes
    u32 stack_bytes = 0;
    u64 steps = 0;  // warp instructions, which is also the clock
    u64 id = 0;
    alignas(16) std::array<std::byte, 64> workspace{};
    u64 threads = 0, exited = 0;
    u64 arrived = 0;  // threads in the grid's barrier
    u64 passed = 0;   // how often all have passed it
};

struct Barrier {
    unsigned arrived = 0;   // threads
    unsigned expected = 0;  // 0: all of the block
    unsigned trues = 0;     // of barrier.red
    Mask none = 0;
};

struct Block;

// A call that a lane is in.
struct Frame {
    u32 return_pc = 0;
    u32 base = 0;
    u32 sp = 0;
    u32 routine = 0;
    const Call* call = nullptr;
};

// What a lane waits for with others of its warp (sync.cpp).
struct Meeting {
    const Op* op = nullptr;
    Mask members = 0;
    u64 a = 0, b = 0, c = 0;
};

struct Warp {
    Grid* grid = nullptr;
    Block* block = nullptr;
    unsigned number = 0;  // in the block
    // Of the lanes that run now.
    u64* frame = nullptr;
    const u64* constants = nullptr;
    u32 now = 0;      // the pc
    Mask active = 0;  // without the guard
    Range range;      // the last one that was found
    // Of all lanes.
    Mask live = 0, runnable = 0, at_meeting = 0, at_barrier = 0;
    Mask at_grid_barrier = 0;
    std::array<u64, kLanes> grid_barrier{};  // Grid::passed when the lane came to it
    bool yielded = false;                    // nanosleep: others go first
    unsigned patience = 0;
    std::array<u32, kLanes> pc{}, base{}, sp{}, routine{};
    std::array<u64, kLanes> ran{};  // when each lane ran last
    std::array<u8, kLanes> barrier{};
    std::array<Meeting, kLanes> meetings{};
    std::vector<u64> registers;
    std::array<std::vector<std::byte>, kLanes> stacks;
    std::array<std::vector<Frame>, kLanes> frames;
    std::array<u8, kLanes> carry{};

    u64* at(s32 operand) { return frame + static_cast<std::size_t>(operand) * kLanes; }
    const u64* get(s32 operand) const {
        return operand >= 0 ? frame + static_cast<std::size_t>(operand) * kLanes
                            : constants + static_cast<std::size_t>(~operand) * kLanes;
    }
    // The same for a lane that may not be among those that run.
    u64* lane_frame(unsigned lane) { return registers.data() + std::size_t{base[lane]} * kLanes; }
    u64 lane_value(unsigned lane, s32 operand) {
        return operand >= 0 ? lane_frame(lane)[static_cast<std::size_t>(operand) * kLanes + lane]
                            : constants[static_cast<std::size_t>(~operand) * kLanes + lane];
    }
    void set_lane_value(unsigned lane, s32 slot, u64 value) {
        lane_frame(lane)[static_cast<std::size_t>(slot) * kLanes + lane] = value;
    }

    // Where the bytes at an address are. Throws Fault where the lane may not touch them.
    std::byte* locate(Space space, u64 address, unsigned bytes, unsigned lane, bool write) {
        if (space == Space::Generic && address >= range.begin && address + bytes <= range.end &&
            (address & (bytes - 1)) == 0 && (range.writable || !write))
            return range.alias + (address - range.begin);
        return locate_slowly(space, address, bytes, lane, write);
    }
    std::byte* locate_slowly(Space space, u64 address, unsigned bytes, unsigned lane, bool write);
    std::byte* locate_unaligned(u64 address, unsigned bytes, unsigned lane, bool write);
    std::byte* in_frame(unsigned lane, u32 offset, u32 bytes);
    void make_stack(unsigned lane, u32 bytes);

    void go_on(Mask lanes) {  // past the current instruction
        for (Mask m = lanes; m != 0; m &= m - 1)
            pc[static_cast<unsigned>(__builtin_ctz(m))] = now + 1;
    }
};

struct Block {
    Grid* grid = nullptr;
    unsigned id[3] = {0, 0, 0};
    std::vector<std::unique_ptr<Warp>> warps;
    std::vector<std::byte> shared;
    std::array<Barrier, 16> barriers;
    unsigned threads = 0;
    unsigned live = 0;  // threads that have not exited
    bool idle = false;  // every warp of the last turn waited or slept
};

// Ends the lanes' threads, and wakes those that waited for them.
void exit_lanes(Warp& warp, Mask lanes);
// sync.cpp
void check_meetings(Warp& warp);
void check_barriers(Block& block);
// warp.cpp: runs until nothing can, or about `budget` instructions. False: it could do nothing.
bool run_warp(Warp& warp, unsigned budget);
// calls.cpp
void return_lanes(Warp& warp, Mask lanes);
u32 print_formatted(Warp& warp, unsigned lane, u64 format, u64 arguments);
std::string read_text(Warp& warp, unsigned lane, u64 address);

}  // namespace vgpu::ptx
