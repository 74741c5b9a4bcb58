// Copies between device and host for one call: queued on one stream for each context, and completed together. Only
// src/staging uses this.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "pack/pieces.hpp"
#include "progress/wait.hpp"

namespace swy::pack {

enum class Direction : std::uint8_t { kToHost, kToDevice };

// The host side of a sheet.
struct HostSide {
    std::byte* address;
    MPI_Aint stride;
    bool pageable;  // the driver copies such memory within the call: large copies are cut
};

// Copies a sheet whose program side is host memory too.
void copy_on_host(Direction direction, const Sheet& sheet, const HostSide& host);

// Queues the copy of a sheet that lies in the stream's context, in as few copies as the driver allows.
device::Result queue_copy(device::Stream& stream, Direction direction, const Sheet& sheet, const HostSide& host);

class Copies {
  public:
    // kProgram: the copies wait for what the program has queued on the devices, as SWITCHYARD_SYNC says. kNothing: they
    // need not, for it has been waited for.
    enum class After : std::uint8_t { kProgram, kNothing };

    explicit Copies(After after) : after_(after) {}
    ~Copies();  // waits for what is queued, so that no memory is in use any more, unless abandoned()
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;

    // Queues the copy of a sheet. Data whose program side is host memory is copied at once; pageable memory is copied
    // when all other copies are done.
    device::Result queue(Direction direction, const Sheet& sheet, const MemoryRange& range, const HostSide& host);

    // Has a kernel copy a segment that lies in one memory range and is packed in page-locked memory. Returns false,
    // with nothing queued, where no kernel can.
    bool queue_by_kernel(Direction direction, const Segment& segment, const void* address, MemoryRanges& ranges,
                         std::byte* host, device::Result& result);

    // For a range from which nothing is copied yet: query() and finish() wait for what the program has queued there as
    // well.
    device::Result await_program(const MemoryRange& range);

    // `done` is set when nothing is under way any more, with success or without; until then the result is 0. Never
    // blocks and allocates nothing.
    device::Result query(bool& done);

    // Waits for the same, driving MPI's progress.
    device::Result finish();

    // True when SWITCHYARD_TIMEOUT has passed with copies under way: the memory that they use must then not be freed.
    bool abandoned() const { return abandoned_; }

    static std::string describe(device::Result result);

  private:
    struct Stream {
        device::Stream stream;
        bool busy = false, marked = false;
    };
    struct Pageable {
        std::size_t stream;
        Direction direction;
        Sheet sheet;
        HostSide host;
    };

    Stream* stream_of(const MemoryRange& range, device::Result& result);
    void use(Stream& stream);
    void look(Stream& stream);
    void copy_some_pageable();
    device::Result abandon();

    const After after_;
    std::vector<Stream> streams_;
    std::vector<Pageable> pageable_;
    std::size_t next_ = 0, row_ = 0, in_row_ = 0;  // how far pageable_ has been copied
    device::Result failure_ = 0;                   // the first since all copies were last done
    bool queued_ = false;
    bool abandoned_ = false;
    std::optional<progress::Deadline> deadline_;  // of the queued copies
};

}  // namespace swy::pack
