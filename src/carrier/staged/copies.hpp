// Copies between device and host for one call: queued on a lane a context, waited for together. Used by carrier/staged/
// alone.
#pragma once

#include <cstddef>
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
    bool pageable;  // the driver copies such memory within the call: large copies are cut, with MPI's progress in
                    // between
};

// Copies what is in host memory on the program's side too.
void copy_on_host(Direction direction, const Sheet& sheet, const HostSide& host);

// Queues the copy of a sheet that lies in the lane's context, in as few copies as the driver allows.
device::Result queue_copy(device::Lane& lane, Direction direction, const Sheet& sheet, const HostSide& host);

class Copies {
  public:
    Copies();
    ~Copies();  // waits for what is queued: nobody's memory is in use any more, unless abandoned()
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;

    // Data that is in host memory on the program's side too is copied at once.
    device::Result queue(Direction direction, const Sheet& sheet, const Place& place, const HostSide& host);

    // Waits, with MPI's progress, until all that is queued is done.
    device::Result finish();

    // SWITCHYARD_TIMEOUT has passed with copies under way: the memory that they use must stay.
    bool abandoned() const { return abandoned_; }

    std::size_t bytes() const { return bytes_; }  // between device and host, in both directions
    std::string describe(device::Result result) const;

  private:
    device::Lane* lane_of(const Place& place, device::Result& result);
    device::Result wait_for(device::Lane& lane);

    std::vector<device::Lane> lanes_;
    std::size_t bytes_ = 0;
    std::size_t uncounted_ = 0;  // bytes of pageable memory copied since MPI last had a turn
    bool queued_ = false;
    bool abandoned_ = false;
    request::Deadline deadline_;
};

}  // namespace swy::carrier::staged
