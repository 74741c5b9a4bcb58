// What a PTX text says, before its names are resolved. Views point into the text, which outlives them.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "vgpu/ptx/ptx.hpp"

namespace vgpu::ptx {

struct Operand {
    enum class Kind : std::uint8_t { Name, Integer, Float32, Float64, Vector, Address, List, Sink };
    Kind kind = Kind::Sink;
    bool negated = false;        // !p
    std::string_view name;       // of Name and Address; empty for an address that is a number
    std::string_view component;  // x of %tid.x
    std::uint64_t value = 0;     // the number's bits, or what is added to the name
    std::vector<Operand> parts;  // of Vector and List; of an Address what follows a comma; q of p|q
};

struct Instruction {
    std::string_view text;  // for messages
    unsigned line = 0;
    unsigned scope = 0;
    std::string_view guard;  // empty: always
    bool guard_negated = false;
    std::string_view opcode;
    std::vector<std::string_view> modifiers;  // without their dots
    std::vector<Operand> operands;
};

struct Initial {
    enum class Kind : std::uint8_t { Number, Symbol };
    Kind kind = Kind::Number;
    std::uint64_t value = 0;  // or the addend; a float's bits where is_float
    unsigned float_bits = 0;  // 32 or 64 for 0f and 0d numbers
    unsigned mask_shift = 0;  // of mask(): which byte of the address, times eight
    bool masked = false;
    std::string_view symbol;
};

enum class Linkage : std::uint8_t { Own, Visible, Weak, Common, Extern };

struct Declaration {
    std::string_view name, space, type;
    unsigned vector = 1;
    unsigned line = 0;
    std::size_t alignment = 0;  // 0: natural
    std::size_t elements = 1;
    bool array = false;
    bool open_array = false;  // []
    unsigned numbered = 0;    // 12 of %r<12>
    bool managed = false;
    Linkage linkage = Linkage::Own;
    std::vector<Initial> initial;
};

struct Scope {
    unsigned parent = 0;  // the outermost is its own
    std::map<std::string_view, Declaration> names;
    std::map<std::string_view, std::size_t> labels;                     // the index of the instruction that follows
    std::map<std::string_view, std::vector<std::string_view>> targets;  // .branchtargets
};

struct Prototype {
    std::vector<Declaration> results, parameters;
};

struct Function {
    std::string_view name;
    Linkage linkage = Linkage::Own;
    bool entry = false;
    bool defined = false;
    unsigned line = 0;
    Prototype prototype;
    unsigned max_threads = 0;
    unsigned cluster[3] = {0, 0, 0};
    std::vector<Scope> scopes;
    std::vector<Instruction> instructions;
    std::map<std::string_view, Prototype> prototypes;  // .callprototype
};

struct Unit {
    std::vector<Declaration> variables;
    std::vector<Function> functions;
    std::map<std::string_view, std::string_view> aliases;
};

// False: `refusal` says why.
bool parse(std::string_view text, Unit& unit, Refusal& refusal);

}  // namespace vgpu::ptx
