// A message's data in the program's memory, described once when the call is made: types may be freed before the
// operation is done (MPI 4.0 section 5.1.9).
#pragma once

#include <cstddef>
#include <memory>

#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "route/call.hpp"

namespace swy::p2p {

struct Payload {
    void* address = nullptr;  // as the program gave it; MPI_BOTTOM too
    std::size_t count = 0;    // elements
    std::shared_ptr<const datatype::Layout> layout;
    std::size_t bytes = 0;      // of data
    std::byte* data = nullptr;  // the one run of data, where `contiguous`
    bool contiguous = false;
    bool device = false;     // some of the data is device memory
    device::Location where;  // of the first byte that is device memory
};

// Throws std::bad_alloc. The count is not negative and the type is valid: MPI has checked, or the caller has.
Payload payload_of(const Call& call, const Operand& operand);

}  // namespace swy::p2p
