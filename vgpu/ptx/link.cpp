// Joins texts into a program: which name means what, where variables lie, what each kernel needs.
#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "vgpu/ptx/decode.hpp"

namespace vgpu::ptx {
namespace {

Builtin builtin(std::string_view name) {
    if (name == "vprintf")
        return Builtin::Printf;
    if (name == "__assertfail")
        return Builtin::Assert;
    if (name == "malloc")
        return Builtin::Malloc;
    if (name == "__nv_aligned_device_malloc")
        return Builtin::AlignedMalloc;
    if (name == "cudaCGGetIntrinsicHandle")
        return Builtin::GridHandle;
    if (name == "cudaCGSynchronize")
        return Builtin::GridSynchronize;
    return name == "free" ? Builtin::Free : Builtin::None;
}

struct Part {
    Unit unit;
    std::map<std::string_view, Symbol> names;
    std::map<std::string_view, std::pair<const Declaration*, std::size_t>> shared;  // with their offsets
};

class Linker {
  public:
    explicit Linker(Program& program) : program_(program) {}

    void run(std::span<const std::string_view> texts) {
        for (const std::string_view text : texts)
            add(program_.texts_.emplace_back(text));
        for (Part& part : parts_)
            declare(part);
        for (Part& part : parts_)
            resolve(part);
        for (Part& part : parts_)
            define(part);
        decode();
    }

  private:
    struct Global {
        Symbol symbol;
        Linkage linkage = Linkage::Extern;
    };

    void add(std::string_view text) {
        Refusal refusal;
        if (!parse(text, parts_.emplace_back().unit, refusal))
            throw refusal;
    }

    [[noreturn]] static void refuse(Refusal::Kind kind, unsigned line, std::string_view name, std::string_view what) {
        throw Refusal{kind, "line " + std::to_string(line) + ": \"" + std::string(name) + "\": " + std::string(what)};
    }

    // Every definition gets an index. Those of other than own linkage are known to all texts.
    void declare(Part& part) {
        for (Function& function : part.unit.functions)
            for (Scope& scope : function.scopes)
                for (auto& [name, declaration] : scope.names)
                    if (declaration.space == "global" || declaration.space == "const")
                        part.unit.variables.push_back(declaration);
        for (const Declaration& one : part.unit.variables)
            declare_variable(part, one);
        for (const Function& function : part.unit.functions)
            declare_function(part, function);
    }

    void declare_variable(Part& part, const Declaration& one) {
        if (type_of(one.type) == Type::None)
            refuse(Refusal::Kind::Unsupported, one.line, one.name,
                   "its type ." + std::string(one.type) + " is not known");
        if (one.space == "shared") {
            declare_shared(part, one);
            return;
        }
        if (one.space != "global" && one.space != "const")
            refuse(Refusal::Kind::Unsupported, one.line, one.name, "a variable outside functions is in no such space");
        if (one.linkage == Linkage::Extern)
            return;
        Symbol symbol;
        symbol.kind = Symbol::Kind::Variable;
        symbol.offset = static_cast<u32>(program_.variables_.size());
        if (!claim(part, one.name, one.linkage, one.line, symbol))
            return;
        Variable variable;
        variable.name = unique(one.name);
        variable.bytes =
            element_bytes(one) * (one.open_array ? std::max<std::size_t>(one.initial.size(), 1) : one.elements);
        if (variable.bytes > std::size_t{1} << 36)
            refuse(Refusal::Kind::Unsupported, one.line, one.name, "it is too large");
        variable.alignment = one.alignment != 0 ? one.alignment : std::max<std::size_t>(element_bytes(one), 1);
        variable.constant = one.space == "const";
        variable.managed = one.managed;
        variable.visible = one.linkage != Linkage::Own;
        program_.variables_.push_back(std::move(variable));
        declarations_.push_back({&part, one});
    }

    void declare_shared(Part& part, const Declaration& one) {
        Symbol symbol;
        if (one.linkage == Linkage::Extern || one.open_array) {
            symbol.kind = Symbol::Kind::DynamicShared;
            part.names[one.name] = symbol;
            dynamic_alignment_ = std::max(dynamic_alignment_, one.alignment);
            return;
        }
        const std::size_t alignment = std::max<std::size_t>(one.alignment, element_bytes(one));
        symbol.kind = Symbol::Kind::Shared;
        symbol.offset = static_cast<u32>((common_shared_ + alignment - 1) / alignment * alignment);
        const std::size_t bytes = element_bytes(one) * one.elements;
        if (bytes > (1u << 24))
            refuse(Refusal::Kind::Unsupported, one.line, one.name, "shared memory is not that large");
        if (claim(part, one.name, one.linkage, one.line, symbol))
            common_shared_ = symbol.offset + static_cast<u32>(bytes);
    }

    void declare_function(Part& part, const Function& function) {
        if (!function.defined)
            return;
        Symbol symbol;
        symbol.kind = Symbol::Kind::Function;
        symbol.offset = static_cast<u32>(program_.routines_.size());
        if (!claim(part, function.name, function.linkage, function.line, symbol))
            return;
        Routine& routine = program_.routines_.emplace_back();
        routine.name = unique(function.name);
        routine.kernel.name = routine.name;
        routine.entry = function.entry;
        routine.defined = true;
        if (function.max_threads != 0)
            routine.kernel.max_threads = function.max_threads;
        std::copy(std::begin(function.cluster), std::end(function.cluster),
                  std::begin(routine.kernel.required_cluster));
        check_types(function);
        lay_out(function, routine);
        bodies_.push_back({&part, &function});
    }

    static void check_types(const Function& function) {
        for (const auto* list : {&function.prototype.parameters, &function.prototype.results})
            for (const Declaration& one : *list)
                if (type_of(one.type) == Type::None)
                    refuse(Refusal::Kind::Unsupported, one.line, one.name,
                           "its type ." + std::string(one.type) + " is not known");
    }

    // False: there is a definition already, which holds.
    bool claim(Part& part, std::string_view name, Linkage linkage, unsigned line, const Symbol& symbol) {
        if (linkage == Linkage::Own) {
            part.names[name] = symbol;
            return true;
        }
        Global& global = globals_[name];
        if (global.linkage == Linkage::Extern) {
            global = {symbol, linkage};
            return true;
        }
        if (linkage == Linkage::Visible && global.linkage == Linkage::Visible)
            refuse(Refusal::Kind::Syntax, line, name, "it is defined twice");
        return false;
    }

    std::string unique(std::string_view name) {
        std::string result(name);
        for (unsigned i = 1; !taken_.insert(result).second; ++i)
            result = std::string(name) + "$" + std::to_string(i);
        return result;
    }

    void resolve(Part& part) {
        for (const Declaration& one : part.unit.variables)
            if (one.space == "shared")
                resolve_shared(part, one.name);
            else
                resolve_name(part, one.name, one.line);
        for (const Function& function : part.unit.functions)
            resolve_name(part, function.name, function.line);
        for (const auto& [alias, name] : part.unit.aliases)
            if (const auto found = part.names.find(name); found != part.names.end())
                part.names[alias] = found->second;
    }

    // What is extern and no text defines is the launch's dynamic shared memory.
    void resolve_shared(Part& part, std::string_view name) {
        const auto found = globals_.find(name);
        const auto own = part.names.find(name);
        const bool defined = own != part.names.end() && own->second.kind == Symbol::Kind::Shared;
        if (!defined && found != globals_.end() && found->second.symbol.kind == Symbol::Kind::Shared)
            part.names[name] = found->second.symbol;
    }

    void resolve_name(Part& part, std::string_view name, unsigned line) {
        if (part.names.contains(name))
            return;
        if (const auto found = globals_.find(name);
            found != globals_.end() && found->second.linkage != Linkage::Extern) {
            part.names[name] = found->second.symbol;
            return;
        }
        const Builtin builtin = ptx::builtin(name);
        if (builtin == Builtin::None && !part.unit.aliases.contains(name))
            refuse(Refusal::Kind::Undefined, line, name, "no text defines it");
        Symbol& symbol = part.names[name];
        symbol.kind = Symbol::Kind::Function;
        symbol.offset = static_cast<u32>(program_.routines_.size());
        Routine& routine = program_.routines_.emplace_back();
        routine.name = unique(name);
        routine.builtin = builtin;
        globals_[name] = {symbol, Linkage::Weak};
        bodies_.push_back({&part, nullptr});
    }

    void define(Part& part) {
        for (std::size_t i = 0; i < declarations_.size(); ++i)
            if (declarations_[i].first == &part)
                initialise(part, declarations_[i].second, program_.variables_[i]);
    }

    void initialise(Part& part, const Declaration& one, Variable& variable) {
        if (one.initial.empty())
            return;
        const std::size_t each = bytes_of(type_of(one.type));
        if (one.initial.size() * each > variable.bytes)
            refuse(Refusal::Kind::Syntax, one.line, one.name, "it has more initial values than elements");
        variable.initial.resize(variable.bytes);
        std::size_t at = 0;
        for (const Initial& initial : one.initial) {
            if (initial.kind == Initial::Kind::Number)
                store(variable.initial.data() + at, each, initial, one);
            else if (!initial.masked || initial.mask_shift == 0)
                refer(part, one, initial, at, variable);
            at += each;
        }
    }

    static void store(std::byte* to, std::size_t bytes, const Initial& initial, const Declaration& one) {
        u64 value = initial.value;
        if (one.type == "f32" && initial.float_bits == 64)
            value = std::bit_cast<u32>(static_cast<float>(std::bit_cast<double>(value)));
        else if (one.type == "f64" && initial.float_bits == 32)
            value = std::bit_cast<u64>(static_cast<double>(std::bit_cast<float>(static_cast<u32>(value))));
        std::memcpy(to, &value, std::min<std::size_t>(bytes, 8));
    }

    void refer(Part& part, const Declaration& one, const Initial& initial, std::size_t at, Variable& variable) {
        const auto found = part.names.find(initial.symbol);
        if (found == part.names.end())
            refuse(Refusal::Kind::Undefined, one.line, initial.symbol, "no text defines it");
        if (at + 8 > variable.bytes)
            refuse(Refusal::Kind::Unsupported, one.line, one.name, "an address has to have eight bytes");
        const Symbol& symbol = found->second;
        if (symbol.kind != Symbol::Kind::Function && symbol.kind != Symbol::Kind::Variable)
            refuse(Refusal::Kind::Unsupported, one.line, initial.symbol, "it has no address before a launch");
        const std::string& name = symbol.kind == Symbol::Kind::Function ? program_.routines_[symbol.offset].name
                                                                        : program_.variables_[symbol.offset].name;
        variable.references.push_back({at, name, static_cast<s64>(initial.value)});
    }

    static void collect(const Operand& operand, std::set<std::string_view>& names) {
        if (!operand.name.empty())
            names.insert(operand.name);
        for (const Operand& part : operand.parts)
            collect(part, names);
    }

    struct Uses {
        std::set<u32> functions;
        bool common_shared = false;
        bool indirect = false;
    };

    Uses uses_of(const Part& part, const Function& function) const {
        std::set<std::string_view> names;
        Uses uses;
        for (const Instruction& instruction : function.instructions) {
            for (const Operand& operand : instruction.operands)
                collect(operand, names);
            uses.indirect |= instruction.opcode == "call" && !instruction.operands.empty() &&
                             !part.names.contains(instruction.operands.front().kind == Operand::Kind::List &&
                                                          instruction.operands.size() > 1
                                                      ? instruction.operands[1].name
                                                      : instruction.operands[0].name);
        }
        for (const std::string_view name : names) {
            const auto found = part.names.find(name);
            if (found == part.names.end())
                continue;
            uses.common_shared |= found->second.kind == Symbol::Kind::Shared;
            if (found->second.kind == Symbol::Kind::Function)
                uses.functions.insert(found->second.offset);
        }
        return uses;
    }

    void decode() {
        std::vector<u32> starts(bodies_.size());
        std::vector<Uses> uses(bodies_.size());
        for (std::size_t i = 0; i < bodies_.size(); ++i) {
            const auto& [part, function] = bodies_[i];
            if (function == nullptr)
                continue;
            uses[i] = uses_of(*part, *function);
            starts[i] = (common_shared_ + 15) / 16 * 16;
            const u32 end = function->entry ? 0 : shared_bytes_of(*function, starts[i]);
            uses[i].common_shared |= end > starts[i];
            common_shared_ = std::max(common_shared_, end);
        }
        for (std::size_t i = 0; i < bodies_.size(); ++i) {
            const auto& [part, function] = bodies_[i];
            if (function == nullptr)
                continue;
            if (function->entry)
                starts[i] = reaches_common(uses, i) ? (common_shared_ + 15) / 16 * 16 : 0;
            Routine& routine = program_.routines_[i];
            const auto& names = part->names;
            decode_function(
                program_, *function, routine,
                [&names](std::string_view name) {
                    const auto found = names.find(name);
                    return found == names.end() ? Symbol{} : found->second;
                },
                starts[i]);
            if (!function->entry)
                continue;
            const u32 end = shared_bytes_of(*function, starts[i]);
            routine.kernel.static_shared_bytes = end == starts[i] && starts[i] != 0 ? common_shared_ : end;
        }
    }

    // Whether the kernel may use shared variables that are not its own.
    bool reaches_common(const std::vector<Uses>& uses, std::size_t kernel) const {
        std::vector<u32> open{static_cast<u32>(kernel)};
        std::set<u32> seen(open.begin(), open.end());
        while (!open.empty()) {
            const Uses& one = uses[open.back()];
            open.pop_back();
            if (one.common_shared || (one.indirect && common_shared_ > 0))
                return true;
            for (const u32 next : one.functions)
                if (seen.insert(next).second)
                    open.push_back(next);
        }
        return false;
    }

    Program& program_;
    std::deque<Part> parts_;
    std::map<std::string_view, Global> globals_;
    std::set<std::string> taken_;
    std::vector<std::pair<const Part*, Declaration>> declarations_;  // of each variable
    std::vector<std::pair<const Part*, const Function*>> bodies_;    // of each routine
    u32 common_shared_ = 0;
    std::size_t dynamic_alignment_ = 16;
};

}  // namespace

std::shared_ptr<const Module> link(std::span<const std::string_view> texts, Refusal& refusal) {
    auto program = std::make_shared<Program>();
    try {
        Linker(*program).run(texts);
    } catch (const Refusal& cause) {
        refusal = cause;
        return nullptr;
    }
    refusal = {};
    return program;
}

std::uint64_t address_of(const Module& module, const Addresses& addresses, std::string_view symbol) {
    if (const auto found = addresses.find(symbol); found != addresses.end())
        return found->second;
    const auto& routines = static_cast<const Program&>(module).routines_;
    for (std::size_t i = 0; i < routines.size(); ++i)
        if (routines[i].name == symbol)
            return kCodeWindow + i;
    return 0;
}

}  // namespace vgpu::ptx
