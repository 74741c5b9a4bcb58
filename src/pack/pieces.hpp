// Where the data of an operand lies: its runs of bytes, cut into as few pieces as possible so that each piece is in one
// memory range. Used by src/pack, src/staging and pack/payload.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "pack/operands.hpp"

namespace swy::pack {

// The memory around an address, which has one location.
struct MemoryRange {
    bool device = false;
    int ordinal = -1;
    device::Context context = nullptr;
    std::uintptr_t begin = 0, end = 0;  // all of [begin, end) has this location; begin == end where nothing is known

    bool has(std::uintptr_t from, std::uintptr_t to) const { return from >= begin && to <= end; }
    bool like(const MemoryRange& other) const { return device == other.device && context == other.context; }
};

// Asks the driver for locations and remembers the last answers.
class MemoryRanges {
  public:
    MemoryRange at(std::uintptr_t address);
    // Takes a range of device memory that is known, so that nobody need ask for it.
    void know(const device::Location& location);

  private:
    MemoryRange host_, device_;
};

// `rows` rows of `width` bytes, `stride` bytes apart (0 for one row), and where they lie in the packed form of the
// segment.
struct Sheet {
    std::uintptr_t address;
    std::size_t width, rows;
    MPI_Aint stride;
    std::size_t packed, packed_stride;

    std::uintptr_t row(std::size_t i) const { return address + i * static_cast<std::uintptr_t>(stride); }
    std::uintptr_t low() const { return stride < 0 ? row(rows - 1) : address; }
    std::uintptr_t high() const { return (stride < 0 ? address : row(rows - 1)) + width; }
};

// Receives the pieces of an operand one by one; a result other than 0 ends the walk.
class Visitor {
  public:
    virtual ~Visitor() = default;
    virtual device::Result visit(const Segment& segment, const Sheet& sheet, const MemoryRange& range) = 0;
};

// Walks over the pieces of `segments` of an operand at `address`. Data that the program addresses relative to a buffer
// is in the same object as that buffer (MPI 4.0 section 5.1.12), so regular rows are taken to lie in the range in which
// the first and the last of them lie; under MPI_BOTTOM every row is looked up.
device::Result walk(const std::vector<Segment>& segments, const void* address, MemoryRanges& ranges, Visitor& visitor);

}  // namespace swy::pack
