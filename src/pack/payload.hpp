// A message's data in the program's memory, described when the call is made: the program may free the types before the
// operation is done (MPI 4.0 section 5.1.9).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "call/call.hpp"
#include "datatype/layout.hpp"
#include "device/device.hpp"

namespace swy::pack {

class Packed;

struct Payload {
    void* address = nullptr;  // as the program gave it; MPI_BOTTOM too
    std::size_t count = 0;    // elements
    std::shared_ptr<const datatype::Layout> layout;
    std::size_t bytes = 0;      // of data
    std::byte* data = nullptr;  // the one run of data, where `contiguous`; the packed form, where there is `packed`
    bool contiguous = false;
    bool device = false;     // some of the data is device memory
    device::Location where;  // of the first byte that is device memory

    // For a message of several buffers, each one run of data and all of one size: where these are. Otherwise empty.
    std::vector<std::byte*> runs;
    std::vector<device::Location> ranges;

    // Set while NCCL is to move the packed form of data that is in no such runs.
    std::shared_ptr<const Packed> packed;

    // The data as such runs; a contiguous payload is one run.
    bool in_runs() const { return contiguous || !runs.empty(); }
    std::size_t parts() const { return runs.empty() ? 1 : runs.size(); }
    std::size_t part_bytes() const { return bytes / parts(); }
    std::byte* part(std::size_t number) const { return runs.empty() ? data : runs[number]; }
    std::span<const device::Location> devices() const {
        return runs.empty() ? std::span(&where, 1) : std::span<const device::Location>(ranges);
    }
    bool all_on_devices() const;
    const void* first_byte() const;  // of the packed form; nullptr without data
};

// Walks over a message of `bytes` bytes whose data is in runs of `mine` bytes on this side and of `theirs` bytes on the
// other: calls `act` for each stretch that lies in one run on both sides, with the indices of both runs, the offset in
// the message and the length.
template <typename Act>
void each_stretch(std::size_t bytes, std::size_t mine, std::size_t theirs, Act act) {
    for (std::size_t at = 0; at < bytes;) {
        const std::size_t end = std::min({bytes, (at / mine + 1) * mine, (at / theirs + 1) * theirs});
        act(at / mine, at / theirs, at, end - at);
        at = end;
    }
}

// Describes the operand's data. The caller, or MPI, has checked that the count is not negative and the type is valid.
// `buffers` are the buffers that make up the operand, see Matching. Throws std::bad_alloc.
Payload payload_of(const Call& call, const Operand& operand, std::span<const Operand> buffers = {});

// The same for `count` elements in what is known to be host memory.
Payload host_payload(void* address, std::size_t count, std::shared_ptr<const datatype::Layout> layout);

}  // namespace swy::pack
