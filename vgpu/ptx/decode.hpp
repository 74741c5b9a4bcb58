// From an instruction's words to operations. Each family of instructions has a function below, which throws
// NotUnderstood for what it does not know; the operation is then one that ends the launch that reaches it.
#pragma once

#include <optional>

#include "vgpu/ptx/code.hpp"
#include "vgpu/ptx/syntax.hpp"

namespace vgpu::ptx {

struct NotUnderstood {
    std::string why;
};

// What a name of a function's code stands for.
struct Symbol {
    enum class Kind : u8 { None, Register, Frame, KernelParameter, Shared, DynamicShared, Variable, Function };
    Kind kind = Kind::None;
    s32 slot = 0;
    u32 offset = 0;  // or index
    u32 bytes = 0;
    bool parameter = false;  // it has no address in local space, only a generic one
};

// One function while it is decoded (function.cpp).
class Names {
  public:
    virtual ~Names() = default;
    virtual Symbol find(std::string_view name, unsigned scope) = 0;
    virtual std::optional<u32> label(std::string_view name, unsigned scope) = 0;  // the index of an instruction
    virtual const std::vector<std::string_view>* targets(std::string_view name, unsigned scope) = 0;
    virtual const Prototype* prototype(std::string_view name) = 0;
    virtual s32 temporary(unsigned slots = 1) = 0;
    virtual bool in_kernel() const = 0;
};

class Decode {
  public:
    Decode(Program& program, Names& names, const Instruction& instruction, std::vector<Op>& out, u32 source)
        : instruction(instruction),
          names(names),
          program(program),
          out_(out),
          source_(source),
          modifiers_(instruction.modifiers) {}

    bool take(std::string_view modifier);
    // The modifier that starts like this, without it.
    std::optional<std::string_view> take_like(std::string_view start);
    Type take_type();   // the first type among the modifiers
    Type maybe_type();  // None: there is none left
    Rounding take_rounding(Rounding otherwise = Rounding::Nearest);
    void expect_operands(std::size_t least, std::size_t most = 0) const;
    void finish() const;  // no modifier may be left

    const Operand& operand(std::size_t i) const;
    std::size_t operands() const { return instruction.operands.size(); }
    s32 value(const Operand& operand, Type type);  // as a source
    s32 value(std::size_t i, Type type) { return value(operand(i), type); }
    s32 predicate(const Operand& operand);  // as a source, ! applied
    s32 destination(const Operand& operand);
    s32 destination(std::size_t i) { return destination(operand(i)); }
    // Fills in a, immediate and space. `space` is what the instruction says; empty: generic.
    void address(Op& op, const Operand& operand, std::string_view space);
    s32 constant(u64 value) { return program.constant({Constant::Kind::Value, value, 0}); }
    std::string_view take_space();

    Op& emit(Handler handler);
    [[noreturn]] static void unknown(std::string why) { throw NotUnderstood{std::move(why)}; }

    const Instruction& instruction;
    Names& names;
    Program& program;

  private:
    s32 immediate(const Operand& operand, Type type);
    s32 special(std::string_view name, std::string_view component);
    s32 symbol_address(const Symbol& symbol, u64 addend);

    std::vector<Op>& out_;
    u32 source_;
    std::vector<std::string_view> modifiers_;
};

// True: the instruction is of the family, and is decoded.
bool decode_integer(Decode& decode);  // integer.cpp
bool decode_carry(Decode& decode);    // carry.cpp
bool decode_bits(Decode& decode);     // bits.cpp
bool decode_float(Decode& decode);    // real.cpp
bool decode_approximate(Decode& decode);
bool decode_half(Decode& decode);          // half.cpp
bool decode_compare(Decode& decode);       // compare.cpp
bool decode_convert(Decode& decode);       // convert.cpp
bool decode_move(Decode& decode);          // move.cpp
bool decode_memory(Decode& decode);        // memory.cpp
bool decode_atomic(Decode& decode);        // atomic.cpp
bool decode_flow(Decode& decode);          // flow.cpp
bool decode_sync(Decode& decode);          // sync.cpp
bool decode_asynchronous(Decode& decode);  // asynchronous.cpp

Handler special_register(std::string_view name, std::string_view component);  // special.cpp

// function.cpp: appends the function's code to the program. `outside` says what names of the unit stand for, and
// `shared_start` where the function's own shared variables lie.
using Outside = std::function<Symbol(std::string_view)>;
void decode_function(Program& program, const Function& function, Routine& routine, const Outside& outside,
                     u32 shared_start);
// The places of results and parameters, before any code is decoded: calls need them.
void lay_out(const Function& function, Routine& routine);
inline std::size_t element_bytes(const Declaration& one) {
    return bytes_of(type_of(one.type)) * std::size_t{one.vector};
}
u32 shared_bytes_of(const Function& function, u32 start);  // the end of its shared variables

}  // namespace vgpu::ptx
