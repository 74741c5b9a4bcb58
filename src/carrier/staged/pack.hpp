// Packing: parts of a payload's packed form (in type map order, as MPI_Pack has it) copied between the program's memory
// and host memory of ours. What a kernel is to take over stays behind this one class. Used by carrier/staged/ alone.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "carrier/staged/copies.hpp"
#include "carrier/staged/part.hpp"
#include "carrier/staged/pieces.hpp"
#include "device/device.hpp"
#include "p2p/payload.hpp"

namespace swy::carrier::staged {

// Nothing here blocks. Failures are values, which describe() puts into words.
class Packer {
  public:
    // The first `bytes` of the payload's packed form are what will be copied. Throws std::bad_alloc; nothing else here
    // does.
    Packer(const p2p::Payload& payload, std::size_t bytes);

    // To be called until `ready`, before the first part: finds the devices, and waits for what the program has queued
    // on them before. Copies from and to pageable memory would wait for that inside the driver.
    device::Result prepare(bool& ready);

    // Begins to copy bytes [from, from + n) between the program's memory and `host`. One part at a time: after this,
    // whether it failed or not, query() until `done`.
    device::Result start(Direction direction, std::size_t from, std::size_t n, std::byte* host);

    // `done` when no copy is under way any more, with success or without.
    device::Result query(bool& done);

    static std::string describe(device::Result result);

  private:
    class Finder;
    class Copier;
    struct Stream {
        device::Lane lane;
        bool busy = false;
    };

    device::Result find_devices();
    bool kernel_takes(const std::byte* host, std::size_t n, Stream*& stream);
    device::Result stream_of(const Place& place, Stream*& stream);
    device::Result record();

    p2p::Payload payload_;
    std::size_t bytes_;
    Parts parts_;
    Places places_;
    std::vector<Stream> streams_;  // one for each context in which there is data
    bool found_ = false;
    std::optional<Place> kernel_place_;  // all of the data, where kernels pack it
};

}  // namespace swy::carrier::staged
