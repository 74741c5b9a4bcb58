// Linked code in the form that it is run in: every operand is a slot of registers or a constant, every instruction a
// handler for all lanes of a warp.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "vgpu/ptx/ptx.hpp"

namespace vgpu::ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

using Mask = u32;  // a bit for each lane
constexpr unsigned kLanes = 32;
constexpr Mask kAllLanes = ~Mask{0};

// Generic addresses that are no device's and no host's: user space ends at 2^56 on every machine there is. The low half
// is the offset, so that an address of shared or local space is its generic address cut to 32 bits.
constexpr unsigned kWindowShift = 56;
constexpr u64 kSharedWindow = u64{1} << kWindowShift;
constexpr u64 kLocalWindow = u64{2} << kWindowShift;
constexpr u64 kParameterWindow = u64{3} << kWindowShift;
constexpr u64 kCodeWindow = u64{4} << kWindowShift;
constexpr u64 kWorkspaceWindow = u64{5} << kWindowShift;  // of a cooperative launch

enum class Type : u8 {
    None,
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    F32,
    F64,
    TF32,
    E4M3x2,
    E5M2x2,
    U16x2,
    S16x2
};
Type type_of(std::string_view name);  // None: PTX has no such type, or the engine does not know it
unsigned bytes_of(Type type);
bool is_signed(Type type);
bool is_float(Type type);

enum class Space : u8 { Generic, Shared, Local, Frame, KernelParameter };
enum class Flow : u8 { Straight, Branch, Other };  // Other: the handler sets the lanes' pcs
enum class Rounding : u8 { Nearest, Zero, Down, Up, NearestAway };

struct Warp;
struct Op;
using Handler = void (*)(Warp&, const Op&, Mask);

constexpr s32 kNone = -1;

// Operands: a slot of the frame where not negative, otherwise ~ the index of a constant.
struct Op {
    Handler run = nullptr;
    Flow flow = Flow::Straight;
    bool guard_negated = false;
    u8 count = 1;  // of a vector
    Space space = Space::Generic;
    Rounding rounding = Rounding::Nearest;
    bool ftz = false, saturate = false, relu = false;
    u8 detail = 0;  // which of several things the handler does
    s32 guard = kNone;
    s32 d = kNone, d2 = kNone, a = kNone, b = kNone, c = kNone, e = kNone;
    u32 target = 0;
    u32 source = 0;
    s64 immediate = 0;
    const std::vector<s32>* list = nullptr;
};

// Where an argument or a result lies: in a register, or in the frame.
struct Place {
    bool in_register = false;
    s32 slot = 0;
    u32 offset = 0;
    u32 bytes = 0;
};

struct Call {
    std::vector<Place> results, arguments;  // the caller's
    u32 function = 0;                       // of a direct call
};

enum class Builtin : u8 { None, Printf, Assert, Malloc, AlignedMalloc, Free, GridHandle, GridSynchronize };

struct Routine {
    std::string name;
    bool entry = false;
    bool defined = false;
    Builtin builtin = Builtin::None;
    u32 pc = 0;
    u32 slots = 1;
    u32 frame_bytes = 0;
    std::vector<Place> results, parameters;
    Kernel kernel;
};

struct Constant {
    enum class Kind : u8 { Value, Variable, DynamicShared };
    Kind kind = Kind::Value;
    u64 value = 0;  // or what is added
    u32 variable = 0;
    auto operator<=>(const Constant&) const = default;
};

struct Source {
    u32 line = 0;
    std::string_view text;
    std::string why;  // of an instruction that is not understood
};

class Program final : public Module {
  public:
    const Kernel* kernel(std::string_view name) const override;
    std::vector<std::string> kernels() const override;
    std::span<const Variable> variables() const override { return variables_; }
    bool uses_heap() const override;

    const Routine* routine(u64 address) const;
    s32 constant(const Constant& constant);
    const std::vector<s32>* keep(std::vector<s32> list) { return &lists_.emplace_back(std::move(list)); }

    std::deque<std::string> texts_;
    std::vector<Variable> variables_;
    std::deque<Routine> routines_;
    std::vector<Op> code_;
    std::vector<Source> sources_;
    std::vector<u32> starts_;  // the pc of each instruction, for brx
    std::vector<Constant> constants_;
    std::deque<Call> calls_;

  private:
    std::map<Constant, s32> numbers_;
    std::deque<std::vector<s32>> lists_;
};

}  // namespace vgpu::ptx
