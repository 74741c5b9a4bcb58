// PTX on the CPU: device code is parsed, linked and run, for the kernels that have no twin (vgpu/core/kernels.hpp).
//
// Nothing here knows the CUDA driver: vgpu/cuda gives a module its variables' addresses, and a launch the memory that
// it may touch. The reference is NVIDIA's PTX ISA; section numbers in comments are its chapters of version 9.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vgpu::ptx {

// Why code was not accepted. `text` names the line, what stands there, and what is wrong with it.
struct Refusal {
    enum class Kind { None, Syntax, Unsupported, Undefined };  // Undefined: a symbol that no source defines
    Kind kind = Kind::None;
    std::string text;
};

struct Parameter {
    std::size_t offset = 0;  // bytes, within the parameters of the kernel
    std::size_t bytes = 0;
    std::size_t alignment = 1;
};

struct Kernel {
    std::string name;
    std::vector<Parameter> parameters;
    std::size_t parameter_bytes = 0;
    std::size_t static_shared_bytes = 0;
    std::size_t local_bytes = 0;               // of a thread, of the deepest frame alone
    unsigned max_threads = 1024;               // a block: .maxntid, .reqntid
    unsigned required_cluster[3] = {0, 0, 0};  // .reqnctapercluster; zeros where the kernel requires none
};

// A variable of the module in global or constant memory.
struct Variable {
    // Eight bytes at `offset` hold the address of another variable or of a function, plus `addend`.
    struct Reference {
        std::size_t offset = 0;
        std::string symbol;
        std::int64_t addend = 0;
    };
    std::string name;
    std::size_t bytes = 0;
    std::size_t alignment = 1;
    bool constant = false;
    bool managed = false;
    bool visible = false;            // of .visible, .weak, .common or .extern linkage: a program may ask for it
    std::vector<std::byte> initial;  // `bytes` long, or empty where it starts as zeros
    std::vector<Reference> references;
};

// Code that was parsed and linked. Immutable; shared by devices and threads.
class Module {
  public:
    virtual ~Module() = default;
    // nullptr where there is none of this name.
    virtual const Kernel* kernel(std::string_view name) const = 0;
    virtual std::vector<std::string> kernels() const = 0;
    virtual std::span<const Variable> variables() const = 0;
    // Whether its code calls malloc or free.
    virtual bool uses_heap() const = 0;
};

// Parses and links the texts, as nvJitLink and cuLink do: a symbol that is extern in one may be defined in another.
// An instruction that is not known is no refusal of the module: it is one of the launch that reaches it.
std::shared_ptr<const Module> link(std::span<const std::string_view> texts, Refusal& refusal);

// The variables' addresses on one device, by name; and what is stored in variables that refer to functions or
// variables.
using Addresses = std::map<std::string, std::uint64_t, std::less<>>;
// The eight bytes that hold the symbol's address: a variable's from `addresses`, a function's an opaque number that
// indirect calls in kernels of this module understand.
std::uint64_t address_of(const Module& module, const Addresses& addresses, std::string_view symbol);

// The memory that a launch may touch with generic and global addresses.
struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::byte* alias = nullptr;  // where the simulator finds the byte at `begin`
    bool writable = true;
};
class Memory {
  public:
    virtual ~Memory() = default;
    // The live allocation that the address lies in. False: there is none that this launch may touch. The engine may
    // remember a range until the launch ends. Called by several threads at a time.
    virtual bool find(std::uint64_t address, Range& range) = 0;
};

// What device code's malloc and free take memory from. Called by several threads at a time.
class Heap {
  public:
    virtual ~Heap() = default;
    // The address of `bytes`, a multiple of `alignment` and of 16; 0 where there is no room.
    virtual std::uint64_t allocate(std::size_t bytes, std::size_t alignment) = 0;
    // False: the address is not that of a block in use.
    virtual bool release(std::uint64_t address) = 0;
};

struct Shape {
    unsigned grid[3] = {1, 1, 1};
    unsigned block[3] = {1, 1, 1};
    unsigned cluster[3] = {1, 1, 1};
    std::size_t dynamic_shared_bytes = 0;
    bool cooperative = false;
};

struct Surroundings {
    Memory* memory = nullptr;
    Heap* heap = nullptr;  // nullptr: malloc returns a null pointer
    const Addresses* addresses = nullptr;
    int capability = 90;  // 90 is 9.0
    unsigned multiprocessors = 132;
    std::size_t stack_bytes = 1024;               // of a thread: cuCtxSetLimit(CU_LIMIT_STACK_SIZE)
    std::function<void(std::string_view)> print;  // the text of a printf, once a call
    const std::atomic<bool>* stop = nullptr;      // true: the launch is to end; nullptr: never
};

// How a launch ended. `text` names the kernel, the block and thread, the line and instruction, and what was wrong.
struct Outcome {
    enum class Kind {
        Done,
        IllegalAddress,  // outside every allocation, or not writable
        MisalignedAddress,
        IllegalInstruction,  // an instruction that the engine does not know, or that its operands make invalid
        InvalidPc,           // an indirect call of what is no function
        Assert,              // __assertfail
        Trap,                // trap, a stack that ran out, or free() of what malloc() has not given
        Stopped,             // by Surroundings::stop
    };
    Kind kind = Kind::Done;
    std::string text;
};

// Runs the grid on the calling thread. `parameters` has Kernel::parameter_bytes bytes, laid out as Parameter says.
// Threads of a warp may diverge and make progress each by itself, as from compute capability 7.0 on; blocks that are
// resident at a time are run in turn, so that those which wait for each other, or for another device, go on.
Outcome run(const Module& module, const Kernel& kernel, const Shape& shape, const std::byte* parameters,
            const Surroundings& surroundings);

}  // namespace vgpu::ptx
