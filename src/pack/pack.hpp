// Packing: copies parts of a payload's packed form (in type map order, as MPI_Pack has it) between the program's memory
// and host memory of the library. Whether kernels or copies do it stays behind this class. Used by src/pack and
// src/staging.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "pack/copies.hpp"
#include "pack/part.hpp"
#include "pack/payload.hpp"
#include "pack/pieces.hpp"

namespace swy::pack {

// Nothing here blocks. Failures are values, which describe() turns into text.
class Packer {
  public:
    // The first `bytes` of the payload's packed form will be copied. Throws std::bad_alloc; nothing else here does.
    Packer(const Payload& payload, std::size_t bytes);

    // To be called until `ready`, before the first part: finds the devices and waits for what the program has queued on
    // them. Copies from and to pageable memory would wait for that inside the driver.
    device::Result prepare(bool& ready);
    // The same where all copies are from and to page-locked memory: they wait for the program in their streams.
    device::Result prepare_in_order();

    // Starts to copy bytes [from, from + n) between the program's memory and `host`. One part at a time: after this
    // call, whether it failed or not, call query() until `done`.
    device::Result start(Direction direction, std::size_t from, std::size_t n, std::byte* host);

    // `done` is set when no copy is under way any more, with success or without.
    device::Result query(bool& done);

    static std::string describe(device::Result result);

  private:
    class Finder;
    class Copier;
    struct Stream {
        device::Stream stream;
        bool busy = false;
    };

    device::Result find_devices();
    bool kernel_takes(const std::byte* host, std::size_t n, Stream*& stream);
    device::Result stream_of(const MemoryRange& range, Stream*& stream);
    device::Result record();

    Payload payload_;
    std::size_t bytes_;
    Parts parts_;
    MemoryRanges ranges_;
    std::vector<Stream> streams_;  // one for each context in which there is data
    bool found_ = false;
    std::optional<MemoryRange> kernel_range_;  // the range of all of the data, where kernels pack it
};

}  // namespace swy::pack
