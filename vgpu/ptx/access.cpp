// From addresses to bytes: PTX ISA, "State Spaces" and "Generic Addressing".
#include <charconv>

#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

std::string hexadecimal(u64 value) {
    char digits[16];
    const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value, 16);
    return "0x" + std::string(digits, end);
}

[[noreturn]] void outside(std::string_view space, u64 address, unsigned bytes, unsigned lane) {
    throw Fault{Outcome::Kind::IllegalAddress,
                "the " + std::to_string(bytes) + " bytes at " + hexadecimal(address) + " are not wholly in " +
                    std::string(space),
                lane};
}

std::byte* in_shared(Warp& warp, u64 address, unsigned bytes, unsigned lane) {
    std::vector<std::byte>& shared = warp.block->shared;
    const u64 offset = static_cast<u32>(address);
    if (offset + bytes > shared.size())
        outside("the block's shared memory", address, bytes, lane);
    return shared.data() + offset;
}

std::byte* in_local(Warp& warp, u64 address, unsigned bytes, unsigned lane) {
    std::vector<std::byte>& stack = warp.stacks[lane];
    const u64 offset = static_cast<u32>(address);
    if (offset + bytes > stack.size())
        outside("the thread's local memory", address, bytes, lane);
    return stack.data() + offset;
}

// Parameters are the caller's, and not for writing: `write` of generic addresses is what PTX leaves undefined.
std::byte* in_parameters(Warp& warp, u64 address, unsigned bytes, unsigned lane, bool write) {
    const u64 offset = static_cast<u32>(address);
    if (write || offset + bytes > warp.grid->kernel->kernel.parameter_bytes)
        outside(write ? "memory that may be written" : "the kernel's parameters", address, bytes, lane);
    return const_cast<std::byte*>(warp.grid->parameters) + offset;
}

std::byte* in_global(Warp& warp, u64 address, unsigned bytes, unsigned lane, bool write) {
    Range range;
    if (warp.grid->around->memory == nullptr || !warp.grid->around->memory->find(address, range) ||
        address < range.begin || address >= range.end)
        outside("an allocation that the launch may touch", address, bytes, lane);
    // NCCL reads the whole of an aligned word whose first bytes alone are the program's (prims_ll.h). No page ends
    // there.
    const bool whole_word = !write && (address & (bytes - 1)) == 0;
    if (address + bytes > range.end && !whole_word)
        outside("an allocation that the launch may touch", address, bytes, lane);
    if (write && !range.writable)
        outside("memory that may be written", address, bytes, lane);
    warp.range = range;
    return range.alias + (address - range.begin);
}

std::byte* in_window(Warp& warp, u64 address, unsigned bytes, unsigned lane, bool write) {
    switch (address >> kWindowShift << kWindowShift) {
        case kSharedWindow:
            return in_shared(warp, address, bytes, lane);
        case kLocalWindow:
            return in_local(warp, address, bytes, lane);
        case kWorkspaceWindow:
            if (static_cast<u32>(address) + u64{bytes} > warp.grid->workspace.size())
                outside("the words of the cooperative launch", address, bytes, lane);
            return warp.grid->workspace.data() + static_cast<u32>(address);
        case kParameterWindow:
            return in_parameters(warp, address, bytes, lane, write);
        default:
            return in_global(warp, address, bytes, lane, write);
    }
}

}  // namespace

std::byte* Warp::locate_slowly(Space space, u64 address, unsigned bytes, unsigned lane, bool write) {
    if (space == Space::Frame)
        return in_frame(lane, static_cast<u32>(address), bytes);
    if ((address & (bytes - 1)) != 0)
        throw Fault{Outcome::Kind::MisalignedAddress,
                    "the address " + hexadecimal(address) + " is no multiple of " + std::to_string(bytes), lane};
    switch (space) {
        case Space::Shared:
            return in_shared(*this, address, bytes, lane);
        case Space::Local:
            return in_local(*this, address, bytes, lane);
        case Space::KernelParameter:
            return in_parameters(*this, address, bytes, lane, write);
        default:
            return in_window(*this, address, bytes, lane, write);
    }
}

std::byte* Warp::locate_unaligned(u64 address, unsigned bytes, unsigned lane, bool write) {
    return in_window(*this, address, bytes, lane, write);
}

std::byte* Warp::in_frame(unsigned lane, u32 offset, u32 bytes) {
    return in_local(*this, sp[lane] + u64{offset}, bytes, lane);
}

void Warp::make_stack(unsigned lane, u32 bytes) {
    if (stacks[lane].size() < bytes)
        stacks[lane].resize(bytes);
}

}  // namespace vgpu::ptx
