// Host memory that stands in for an operand's device memory during one MPI call. Used by src/staging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pack/copies.hpp"
#include "pack/operands.hpp"
#include "pack/pieces.hpp"

namespace swy::staging {

// What the host memory is for. kSeldom: it costs nothing before its first use. kMany: many are in use at once, so small
// memory is the heap's.
enum class Use : std::uint8_t { kAlways, kSeldom, kMany };

// Host memory: pinned from the pool, or pageable pages that cost nothing until touched, or the heap's. Used by
// src/window too.
class Memory {
  public:
    Memory() = default;
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&&) = delete;

    // Acquires `bytes`, of which `used` will be touched. Returns false when there is no memory.
    bool acquire(device::Context context, std::size_t bytes, std::size_t used, Use use = Use::kAlways);
    std::byte* data() const { return data_; }
    bool pageable() const { return mapped_ != 0 || !pinned_.page_locked(); }

  private:
    device::Pinned pinned_;
    std::unique_ptr<std::byte[]> heap_;
    std::byte* data_ = nullptr;
    std::size_t mapped_ = 0;
};

// The memory that an operand covers.
struct Survey {
    bool device = false;
    device::Context context = nullptr;  // of the first piece on a device
    std::uintptr_t low = 0, high = 0;   // of the data
    std::size_t bytes = 0;              // of data
};

class HostMirror {
  public:
    HostMirror(const Operand& operand, pack::Data data, const Survey& survey)
        : operand_(operand), data_(std::move(data)), survey_(survey) {}
    HostMirror(HostMirror&& other) noexcept;
    HostMirror& operator=(HostMirror&&) = delete;
    ~HostMirror();

    // kAsItIs: as the program has it. kBetter: packed as bytes, where that is better.
    enum class Form : std::uint8_t { kAsItIs, kBetter };
    // Acquires the host memory. Returns "" or why there is none.
    std::string prepare(Use use, Form form);

    bool better_packed() const;
    std::size_t element() const;  // bytes of data in one of the operand's type

    // The operand for the real call.
    Operand substitute() const;

    device::Result copy_in(pack::MemoryRanges& places, pack::Copies& copies) const;
    device::Result await_program(pack::MemoryRanges& places, pack::Copies& copies) const;  // where copy_out will write
    device::Result copy_out(pack::MemoryRanges& places, pack::Copies& copies) const;
    bool kept() const { return data_.kept; }

    pack::HostSide host_side(const pack::Segment& segment, const pack::Sheet& sheet) const;

  private:
    device::Result copy(pack::MemoryRanges& places, pack::Copies& copies, pack::Direction direction,
                        const std::vector<pack::Segment>& all) const;
    bool make_types();
    std::string prepare_packed(Use use);
    std::string prepare_span(Use use);
    bool acquire(std::size_t bytes, Use use);

    Operand operand_;
    pack::Data data_;
    Survey survey_;
    Memory memory_;
    std::uintptr_t moved_ = 0;  // added to a program's address, it gives the byte's address in the mirror (modulo 2^64)

    // For packed data: the memory, and what MPI is told of it. The types have the sizes of the program's, all bytes.
    std::byte* packed_ = nullptr;
    std::map<std::size_t, MPI_Datatype> made_;  // by size
    std::vector<MPI_Datatype> types_;
    std::vector<int> displs_;
    std::vector<MPI_Aint> offsets_;
};

Survey survey(const Operand& operand, const pack::Data& data, pack::MemoryRanges& places);

}  // namespace swy::staging
