// A message's data in the program's memory, described once when the call is made: types may be freed before the
// operation is done (MPI 4.0 section 5.1.9).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

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

    // Of a message of several buffers that are one run of data each, of one size: where these are. Else empty.
    std::vector<std::byte*> runs;
    std::vector<device::Location> places;

    // The data as such runs, of which a contiguous payload is one.
    bool in_runs() const { return contiguous || !runs.empty(); }
    std::size_t parts() const { return runs.empty() ? 1 : runs.size(); }
    std::size_t part_bytes() const { return bytes / parts(); }
    std::byte* part(std::size_t number) const { return runs.empty() ? data : runs[number]; }
    std::span<const device::Location> devices() const {
        return runs.empty() ? std::span(&where, 1) : std::span<const device::Location>(places);
    }
    bool all_on_devices() const;
    const void* first_byte() const;  // of the packed form; nullptr without data
};

// A message of so many bytes between two ends whose data is in runs, of which the one's may be shorter than the
// other's: each stretch that lies in one run of either. `act` gets the numbers of both runs, where in the message it
// begins, and its length.
template <typename Act>
void each_stretch(std::size_t bytes, std::size_t mine, std::size_t theirs, Act act) {
    for (std::size_t at = 0; at < bytes;) {
        const std::size_t end = std::min({bytes, (at / mine + 1) * mine, (at / theirs + 1) * theirs});
        act(at / mine, at / theirs, at, end - at);
        at = end;
    }
}

// Throws std::bad_alloc. The count is not negative and the type is valid: MPI has checked, or the caller has. `buffers`
// are those of which the operand is all, see Matching.
Payload payload_of(const Call& call, const Operand& operand, std::span<const Operand> buffers = {});

}  // namespace swy::p2p
