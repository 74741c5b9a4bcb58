// Host memory that stands in for an operand's device memory during one MPI call. Used by carrier/staged/ alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "carrier/staged/copies.hpp"
#include "carrier/staged/operands.hpp"
#include "carrier/staged/pieces.hpp"

namespace swy::carrier::staged {

// Host memory: pinned from the pool, or pageable pages that cost nothing until touched.
class Memory {
  public:
    Memory() = default;
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&&) = delete;

    // `used` of the `bytes` will be touched. False when there is no memory.
    bool acquire(device::Context context, std::size_t bytes, std::size_t used);
    std::byte* data() const { return data_; }
    bool pageable() const { return mapped_ != 0 || !pinned_.page_locked(); }

  private:
    device::Pinned pinned_;
    std::byte* data_ = nullptr;
    std::size_t mapped_ = 0;
};

// What an operand covers.
struct Survey {
    bool device = false;
    device::Context context = nullptr;  // of the first piece on a device
    std::uintptr_t low = 0, high = 0;   // of the data
    std::size_t bytes = 0;              // of data
};

class Shadow {
  public:
    Shadow(const Operand& operand, Data data, const Survey& survey)
        : operand_(operand), data_(std::move(data)), survey_(survey) {}
    Shadow(Shadow&& other) noexcept;
    Shadow& operator=(Shadow&&) = delete;
    ~Shadow();

    // As the program has it, or packed as bytes, where that is better.
    enum class Form : std::uint8_t { kAsItIs, kBetter };
    // Makes the memory, of which `seldom` anything will be touched. "" or why there is none.
    std::string prepare(bool seldom, Form form);

    bool better_packed() const;
    std::size_t element() const;  // bytes of data in one of the operand's type

    // The operand for the real call.
    Operand substitute() const;

    device::Result copy_in(Places& places, Copies& copies) const;
    device::Result await_program(Places& places, Copies& copies) const;  // where copy_out will write
    device::Result copy_out(Places& places, Copies& copies) const;
    bool kept() const { return data_.kept; }
    std::size_t bytes() const { return survey_.bytes; }

    HostSide host_side(const Segment& segment, const Sheet& sheet) const;

  private:
    device::Result copy(Places& places, Copies& copies, Direction direction, const std::vector<Segment>& all) const;
    bool make_types();
    std::string prepare_packed(std::size_t used);
    std::string prepare_span(std::size_t used);

    Operand operand_;
    Data data_;
    Survey survey_;
    Memory memory_;
    std::uintptr_t moved_ = 0;  // what to add to a program's address to find the byte in the shadow (modulo 2^64)

    // When the data is packed: the memory, and what MPI is told of it. Types of the same size as the program's, all
    // bytes.
    std::byte* packed_ = nullptr;
    std::map<std::size_t, MPI_Datatype> made_;  // by size
    std::vector<MPI_Datatype> types_;
    std::vector<int> displs_;
    std::vector<MPI_Aint> offsets_;
};

Survey survey(const Operand& operand, const Data& data, Places& places);

}  // namespace swy::carrier::staged
