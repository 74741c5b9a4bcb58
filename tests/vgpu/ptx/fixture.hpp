// What the tests of the engine launch kernels with: memory at addresses that are no host's, as a device's are.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "vgpu/ptx/ptx.hpp"

namespace vgpu::ptx {

class TestMemory final : public Memory {
  public:
    bool find(std::uint64_t address, Range& range) override {
        for (const Range& one : ranges_)
            if (address >= one.begin && address < one.end) {
                range = one;
                return true;
            }
        return false;
    }
    std::uint64_t add(void* data, std::size_t bytes, bool writable = true) {
        const std::uint64_t begin = 0x7f0000000000 + ranges_.size() * 0x10000000;
        ranges_.push_back({begin, begin + bytes, static_cast<std::byte*>(data), writable});
        return begin;
    }
    template <class T>
    std::uint64_t add(std::vector<T>& data) {
        return add(data.data(), data.size() * sizeof(T));
    }

  private:
    std::vector<Range> ranges_;
};

// A module on a device: its variables have memory and their initial values.
class Device {
  public:
    explicit Device(std::string text) : Device(std::vector<std::string>{std::move(text)}) {}
    explicit Device(const std::vector<std::string>& texts) {
        std::vector<std::string_view> views(texts.begin(), texts.end());
        module = link(views, refusal);
        around.memory = &memory;
        around.addresses = &addresses;
        around.print = [this](std::string_view text) { printed += text; };
        if (module != nullptr)
            place_variables();
    }

    // The parameters are laid out as those of a kernel are: each at a multiple of its size.
    template <class... Arguments>
    Outcome launch(const std::string& name, unsigned grid, unsigned block, Arguments... arguments) {
        Shape shape;
        shape.grid[0] = grid;
        shape.block[0] = block;
        return launch_shaped(name, shape, arguments...);
    }
    template <class... Arguments>
    Outcome launch_shaped(const std::string& name, const Shape& shape, Arguments... arguments) {
        if (module == nullptr)
            return {Outcome::Kind::InvalidPc, refusal.text};
        const Kernel* kernel = module->kernel(name);
        if (kernel == nullptr)
            return {Outcome::Kind::InvalidPc, "there is no kernel " + name};
        std::vector<std::byte> bytes(kernel->parameter_bytes);
        [[maybe_unused]] std::size_t at = 0;
        (store(bytes, at, arguments), ...);
        return run(*module, *kernel, shape, bytes.data(), around);
    }
    template <class T>
    T* variable(const std::string& name) {
        for (std::size_t i = 0; i < module->variables().size(); ++i)
            if (module->variables()[i].name == name)
                return reinterpret_cast<T*>(storage_[i].data());
        return nullptr;
    }

    std::shared_ptr<const Module> module;
    Refusal refusal;
    TestMemory memory;
    Addresses addresses;
    Surroundings around;
    std::string printed;

  private:
    template <class T>
    static void store(std::vector<std::byte>& bytes, std::size_t& at, const T& argument) {
        at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
        if (at + sizeof(T) <= bytes.size())
            std::memcpy(bytes.data() + at, &argument, sizeof(T));
        at += sizeof(T);
    }
    void place_variables() {
        for (const Variable& variable : module->variables()) {
            std::vector<std::byte>& bytes = storage_.emplace_back(variable.bytes + 1);
            std::copy(variable.initial.begin(), variable.initial.end(), bytes.begin());
            addresses[variable.name] = memory.add(bytes.data(), variable.bytes);
        }
        for (std::size_t i = 0; i < storage_.size(); ++i)
            for (const Variable::Reference& reference : module->variables()[i].references) {
                const std::uint64_t address =
                    address_of(*module, addresses, reference.symbol) + static_cast<std::uint64_t>(reference.addend);
                std::memcpy(storage_[i].data() + reference.offset, &address, sizeof address);
            }
    }
    std::deque<std::vector<std::byte>> storage_;
};

inline std::string header() {
    return ".version 8.0\n.target sm_90\n.address_size 64\n";
}

// A kernel with the parameters p0, p1 ... of 64 bits, whose addresses are loaded to %a0, %a1 ...; and registers.
inline std::string kernel(const std::string& name, unsigned parameters, const std::string& body,
                          const std::string& directives = "") {
    std::ostringstream text;
    text << ".visible .entry " << name << "(";
    for (unsigned i = 0; i < parameters; ++i)
        text << (i > 0 ? ", " : "") << ".param .u64 " << name << "_p" << i;
    text << ")" << directives << "\n{\n.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<33>; .reg .b64 %rd<17>; "
         << ".reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b64 %a<9>; .reg .b128 %q<3>;\n";
    for (unsigned i = 0; i < parameters; ++i)
        text << "ld.param.u64 %a" << i << ", [" << name << "_p" << i << "];\n";
    text << body << "\nret;\n}\n";
    return text.str();
}

inline std::optional<std::string> read_file(const std::string& path) {
    std::ifstream file(path);
    if (!file)
        return {};
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

#define EXPECT_DONE(outcome)                                                   \
    do {                                                                       \
        const ::vgpu::ptx::Outcome ended = (outcome);                          \
        EXPECT_EQ(ended.kind, ::vgpu::ptx::Outcome::Kind::Done) << ended.text; \
    } while (false)

}  // namespace vgpu::ptx
