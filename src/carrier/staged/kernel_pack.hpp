// Packing by kernels of the library: between elements in device memory and page-locked host memory, which the GPU reads
// and writes itself, so that neither a copy per row nor memory on the device is needed; or other memory of the device.
// Used by carrier/staged/ and by carrier/nccl/packing.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carrier/staged/copies.hpp"
#include "carrier/staged/pieces.hpp"
#include "datatype/layout.hpp"
#include "device/device.hpp"

namespace swy::carrier::staged {

// `count` elements, one extent apart.
struct Elements {
    const datatype::Layout* layout;
    std::size_t count;
    std::uintptr_t address;  // MPI's, of the first element
};

// Is all of it in one allocation of a device? `place` is that allocation.
bool in_one_place(const Elements& elements, Places& places, Place& place);

// Is it that, and a kernel the quickest way to page-locked memory?
bool suits_kernel(const Elements& elements, Places& places, Place& place);

// Queues bytes [from, from + n) of the packed form, of a layout with a plan. The lane has kernels, and is of the
// place's context. `packed` is page-locked, or on the same device (then Direction::kToHost packs).
device::Result queue_kernel(device::Lane& lane, Direction direction, const Elements& elements, std::size_t from,
                            std::size_t n, std::byte* packed);

}  // namespace swy::carrier::staged
