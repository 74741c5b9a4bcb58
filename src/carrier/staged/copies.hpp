// Copies between device and host for one call: queued on a lane a context, waited for or asked about together. Used by
// carrier/staged/ alone.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "carrier/staged/pieces.hpp"
#include "device/device.hpp"
#include "request/wait.hpp"

namespace swy::carrier::staged {

enum class Direction : std::uint8_t { kToHost, kToDevice };

// The host side of a sheet.
struct HostSide {
    std::byte* address;
    MPI_Aint stride;
    bool pageable;  // the driver copies such memory within the call: large copies are cut
};

// Copies what is in host memory on the program's side too.
void copy_on_host(Direction direction, const Sheet& sheet, const HostSide& host);

// Queues the copy of a sheet that lies in the lane's context, in as few copies as the driver allows.
device::Result queue_copy(device::Lane& lane, Direction direction, const Sheet& sheet, const HostSide& host);

class Copies {
  public:
    // What the program has queued on the devices comes first, as SWITCHYARD_SYNC says, or has been waited for already.
    enum class After : std::uint8_t { kProgram, kNothing };

    explicit Copies(After after) : after_(after) {}
    ~Copies();  // waits for what is queued: nobody's memory is in use any more, unless abandoned()
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;

    // Data that is in host memory on the program's side too is copied at once, pageable memory when all else is done.
    device::Result queue(Direction direction, const Sheet& sheet, const Place& place, const HostSide& host);

    // All of a segment in one place, whose data is packed in page-locked memory, by a kernel; false where there is none
    // for it, and nothing has been queued.
    bool queue_by_kernel(Direction direction, const Segment& segment, const void* address, Places& places,
                         std::byte* host, device::Result& result);

    // Nothing to copy here yet: what the program has queued is part of what is waited for.
    device::Result await_program(const Place& place);

    // `done` when nothing is under way any more, with success or without; until then 0. Never blocks, allocates
    // nothing.
    device::Result query(bool& done);

    // Waits for that, with MPI's progress.
    device::Result finish();

    // SWITCHYARD_TIMEOUT has passed with copies under way: the memory that they use must stay.
    bool abandoned() const { return abandoned_; }

    std::size_t bytes() const { return bytes_; }  // between device and host, in both directions
    static std::string describe(device::Result result);

  private:
    struct Stream {
        device::Lane lane;
        bool busy = false, marked = false;
    };
    struct Pageable {
        std::size_t stream;
        Direction direction;
        Sheet sheet;
        HostSide host;
    };

    Stream* stream_of(const Place& place, device::Result& result);
    void use(Stream& stream);
    void look(Stream& stream);
    void copy_some_pageable();
    device::Result abandon();

    const After after_;
    std::vector<Stream> streams_;
    std::vector<Pageable> pageable_;
    std::size_t next_ = 0, row_ = 0, in_row_ = 0;  // how far pageable_ has been copied
    std::size_t bytes_ = 0;
    device::Result failure_ = 0;  // the first since all was done
    bool queued_ = false;
    bool abandoned_ = false;
    std::optional<request::Deadline> deadline_;  // of what is queued
};

}  // namespace swy::carrier::staged
