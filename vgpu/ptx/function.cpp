// Decodes a function: its registers, its frame, its instructions.
#include <algorithm>
#include <set>

#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/machine.hpp"

namespace vgpu::ptx {
namespace {

u32 align_up(u32 value, std::size_t alignment) {
    return static_cast<u32>((value + alignment - 1) / alignment * alignment);
}

u32 bytes_of(const Declaration& one) {
    return static_cast<u32>(std::min<std::size_t>(element_bytes(one) * one.elements, 1u << 30));
}
std::size_t alignment_of(const Declaration& one) {
    return one.alignment != 0 ? one.alignment : std::max<std::size_t>(element_bytes(one), 1);
}

constexpr u64 kMostBytes = 1 << 24;  // of a function's variables in shared or local memory

void illegal(Warp& warp, const Op& op, Mask mask) {
    const std::string& why = warp.grid->program->sources_[op.source].why;
    throw Fault{Outcome::Kind::IllegalInstruction, "the engine does not know this instruction: " + why,
                static_cast<unsigned>(__builtin_ctz(mask))};
}

void leave(Warp& warp, const Op&, Mask mask) {
    return_lanes(warp, mask);
}

// Names of registers that are declared as %r<12>, by what stands before the digits.
struct Numbered {
    s32 first = 0;
    unsigned count = 0;
    s32 slots_each = 1;
};

class FunctionDecoder final : public Names {
  public:
    FunctionDecoder(Program& program, const Function& function, Routine& routine, const Outside& outside,
                    u32 shared_start)
        : program_(program),
          function_(function),
          routine_(routine),
          outside_(outside),
          shared_(shared_start),
          first_start_(static_cast<u32>(program.starts_.size())) {
        names_.resize(function.scopes.size());
        numbered_.resize(function.scopes.size());
        declare_parameters(function.prototype.parameters, routine.parameters);
        declare_parameters(function.prototype.results, routine.results);
        for (std::size_t i = 0; i < function.scopes.size(); ++i)
            for (const auto& [name, declaration] : function.scopes[i].names)
                declare(declaration, i);
    }

    void run() {
        routine_.pc = static_cast<u32>(program_.code_.size());
        for (const Instruction& instruction : function_.instructions) {
            program_.starts_.push_back(static_cast<u32>(program_.code_.size()));
            decode(instruction);
        }
        program_.starts_.push_back(static_cast<u32>(program_.code_.size()));
        program_.sources_.push_back({function_.line, "the end of the function", {}});
        Op& end = program_.code_.emplace_back();
        end.run = leave;
        end.flow = Flow::Other;
        end.source = static_cast<u32>(program_.sources_.size() - 1);
        for (std::size_t i = routine_.pc; i < program_.code_.size(); ++i)
            if (program_.code_[i].flow == Flow::Branch)
                program_.code_[i].target = program_.starts_[program_.code_[i].target];
        temporary(1);  // a wrong .b128 operand may name the slot behind the last
        routine_.frame_bytes = align_up(routine_.frame_bytes, 16);
        routine_.kernel.local_bytes = routine_.frame_bytes;
    }

    Symbol find(std::string_view name, unsigned scope) override {
        for (;; scope = function_.scopes[scope].parent) {
            if (const auto found = names_[scope].find(name); found != names_[scope].end())
                return found->second;
            if (Symbol symbol; find_numbered(name, scope, symbol))
                return symbol;
            if (scope == 0)
                break;
        }
        return outside_(name);
    }
    std::optional<u32> label(std::string_view name, unsigned scope) override {
        for (;; scope = function_.scopes[scope].parent) {
            const auto& labels = function_.scopes[scope].labels;
            if (const auto found = labels.find(name); found != labels.end())
                return first_start_ + static_cast<u32>(found->second);
            if (scope == 0)
                return {};
        }
    }
    const std::vector<std::string_view>* targets(std::string_view name, unsigned scope) override {
        for (;; scope = function_.scopes[scope].parent) {
            const auto& targets = function_.scopes[scope].targets;
            if (const auto found = targets.find(name); found != targets.end())
                return &found->second;
            if (scope == 0)
                return nullptr;
        }
    }
    const Prototype* prototype(std::string_view name) override {
        const auto found = function_.prototypes.find(name);
        return found == function_.prototypes.end() ? nullptr : &found->second;
    }
    s32 temporary(unsigned slots) override {
        const s32 first = static_cast<s32>(routine_.slots);
        routine_.slots += slots;
        return first;
    }
    bool in_kernel() const override { return function_.entry; }

  private:
    bool find_numbered(std::string_view name, unsigned scope, Symbol& symbol) const {
        const std::size_t last = name.find_last_not_of("0123456789");
        if (last == std::string_view::npos || last + 1 == name.size() || name.size() - last > 9)
            return false;
        const auto found = numbered_[scope].find(name.substr(0, last + 1));
        if (found == numbered_[scope].end())
            return false;
        unsigned number = 0;
        for (const char c : name.substr(last + 1))
            number = number * 10 + static_cast<unsigned>(c - '0');
        if (number >= found->second.count)
            return false;
        symbol.kind = Symbol::Kind::Register;
        symbol.slot = found->second.first + static_cast<s32>(number) * found->second.slots_each;
        return true;
    }

    void declare_parameters(const std::vector<Declaration>& declarations, const std::vector<Place>& places) {
        for (std::size_t i = 0; i < declarations.size(); ++i) {
            Symbol& symbol = names_[0][declarations[i].name];
            symbol.kind = places[i].in_register ? Symbol::Kind::Register
                          : function_.entry     ? Symbol::Kind::KernelParameter
                                                : Symbol::Kind::Frame;
            symbol.slot = places[i].slot;
            symbol.offset = places[i].offset;
            symbol.bytes = places[i].bytes;
            symbol.parameter = true;
        }
    }

    void declare(const Declaration& one, std::size_t scope) {
        if (one.space == "reg") {
            declare_register(one, scope);
            return;
        }
        u32* end = one.space == "shared"                          ? &shared_
                   : one.space == "local" || one.space == "param" ? &routine_.frame_bytes
                                                                  : nullptr;
        if (end == nullptr)
            return;
        Symbol& symbol = names_[scope][one.name];
        symbol.kind = one.space == "shared" ? Symbol::Kind::Shared : Symbol::Kind::Frame;
        symbol.parameter = one.space == "param";
        symbol.bytes = bytes_of(one);
        symbol.offset = align_up(*end, alignment_of(one));
        if (u64{symbol.offset} + symbol.bytes > kMostBytes)
            throw Refusal{Refusal::Kind::Unsupported, "line " + std::to_string(one.line) + ": \"" +
                                                          std::string(one.name) + "\": ." + std::string(one.space) +
                                                          " is not that large"};
        *end = symbol.offset + symbol.bytes;
    }

    void declare_register(const Declaration& one, std::size_t scope) {
        const unsigned each = type_of(one.type) == Type::B128 ? 2 : 1;
        const unsigned count = std::max(one.numbered, 1u);
        const s32 first = temporary(each * count);
        if (one.numbered != 0)
            numbered_[scope][one.name] = {first, count, static_cast<s32>(each)};
        else
            names_[scope][one.name] = {Symbol::Kind::Register, first, 0, 0, false};
    }

    bool decode_families(Decode& decode) {
        return decode_move(decode) || decode_memory(decode) || decode_integer(decode) || decode_float(decode) ||
               decode_flow(decode) || decode_compare(decode) || decode_convert(decode) || decode_bits(decode) ||
               decode_carry(decode) || decode_approximate(decode) || decode_half(decode) || decode_atomic(decode) ||
               decode_sync(decode) || decode_asynchronous(decode);
    }

    void decode(const Instruction& instruction) {
        const std::size_t before = program_.code_.size();
        const u32 source = static_cast<u32>(program_.sources_.size());
        program_.sources_.push_back({instruction.line, instruction.text, {}});
        try {
            Decode decode(program_, *this, instruction, program_.code_, source);
            if (!decode_families(decode))
                Decode::unknown("there is none of this name");
            guard(instruction, before);
        } catch (const NotUnderstood& cause) {
            program_.code_.resize(before);
            program_.sources_[source].why = cause.why;
            Op& op = program_.code_.emplace_back();
            op.run = illegal;
            op.source = source;
            guard_quietly(instruction, before);
        }
    }

    void guard(const Instruction& instruction, std::size_t first) {
        if (instruction.guard.empty())
            return;
        const Symbol symbol = find(instruction.guard, instruction.scope);
        if (symbol.kind != Symbol::Kind::Register)
            Decode::unknown("its guard is no predicate");
        for (std::size_t i = first; i < program_.code_.size(); ++i) {
            program_.code_[i].guard = symbol.slot;
            program_.code_[i].guard_negated = instruction.guard_negated;
        }
    }
    void guard_quietly(const Instruction& instruction, std::size_t first) {
        try {
            guard(instruction, first);
        } catch (const NotUnderstood&) {
        }
    }

    Program& program_;
    const Function& function_;
    Routine& routine_;
    const Outside& outside_;
    u32 shared_;
    u32 first_start_;
    std::vector<std::map<std::string_view, Symbol>> names_;
    std::vector<std::map<std::string_view, Numbered>> numbered_;
};

Place place_of(const Declaration& one, u32& end, u32& slots) {
    Place place;
    place.bytes = bytes_of(one);
    place.in_register = one.space == "reg";
    if (place.in_register) {
        place.slot = static_cast<s32>(slots);
        slots += type_of(one.type) == Type::B128 ? 2 : 1;
    } else {
        place.offset = align_up(end, alignment_of(one));
        end = place.offset + place.bytes;
    }
    return place;
}

}  // namespace

void lay_out(const Function& function, Routine& routine) {
    u32 parameters = 0;
    u32& end = function.entry ? parameters : routine.frame_bytes;
    for (const Declaration& one : function.prototype.parameters) {
        routine.parameters.push_back(place_of(one, end, routine.slots));
        const Place& place = routine.parameters.back();
        routine.kernel.parameters.push_back({place.offset, place.bytes, alignment_of(one)});
    }
    routine.kernel.parameter_bytes = parameters;
    for (const Declaration& one : function.prototype.results)
        routine.results.push_back(place_of(one, end, routine.slots));
}

u32 shared_bytes_of(const Function& function, u32 start) {
    for (const Scope& scope : function.scopes)
        for (const auto& [name, one] : scope.names)
            if (one.space == "shared")
                start = align_up(start, alignment_of(one)) + bytes_of(one);
    return start;
}

void decode_function(Program& program, const Function& function, Routine& routine, const Outside& outside,
                     u32 shared_start) {
    FunctionDecoder(program, function, routine, outside, shared_start).run();
}

}  // namespace vgpu::ptx
