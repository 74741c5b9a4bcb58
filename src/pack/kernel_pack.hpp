// Packing by the library's kernels: between elements in device memory and either page-locked host memory, which the GPU
// reads and writes directly, so that neither a copy for each row nor memory on the device is needed, or other memory of
// the device. Used by src/pack, src/staging and nccl/packing.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "pack/copies.hpp"
#include "pack/payload.hpp"
#include "pack/pieces.hpp"

namespace swy::pack {

// `count` elements, one extent apart.
struct Elements {
    const datatype::Layout* layout;
    std::size_t count;
    std::uintptr_t address;  // of the first element, as MPI has it
};

// Tells whether all of the elements lie in one allocation of a device; `range` is that allocation.
bool in_one_place(const Elements& elements, MemoryRanges& ranges, MemoryRange& range);

// The same for a payload's data, and whether its context is the one that the payload names.
bool in_one_place(const Payload& payload);

// As the first, and whether a kernel is the fastest way to page-locked memory.
bool suits_kernel(const Elements& elements, MemoryRanges& ranges, MemoryRange& range);

// Queues the copy of bytes [from, from + n) of the packed form of a layout that has a plan. The stream has kernels and
// belongs to the range's context. `packed` is page-locked, or on the same device (Direction::kToHost then packs).
device::Result queue_kernel(device::Stream& stream, Direction direction, const Elements& elements, std::size_t from,
                            std::size_t n, std::byte* packed);

}  // namespace swy::pack
