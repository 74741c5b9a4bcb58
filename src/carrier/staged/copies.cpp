#include "carrier/staged/copies.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "settings/settings.hpp"

namespace swy::carrier::staged {
namespace {

// The driver's limit on the distance of rows is 2 GiB - 1 or a little less on all devices
// (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
constexpr MPI_Aint kMostPitch = 0x7ffffe00;

// Pageable memory: about a millisecond of copying at a time.
constexpr std::size_t kPageableChunk = std::size_t{8} << 20;

constexpr device::Result kTimeout = -1;

device::Result copy_run(device::Lane& lane, Direction direction, std::uintptr_t theirs, std::byte* ours,
                        std::size_t bytes) {
    auto* device_side = reinterpret_cast<void*>(theirs);
    return direction == Direction::kToHost ? lane.copy(ours, device_side, bytes) : lane.copy(device_side, ours, bytes);
}

device::Result copy_rows(device::Lane& lane, Direction direction, const Sheet& sheet, const HostSide& host) {
    auto* theirs = reinterpret_cast<void*>(sheet.address);
    const auto their_pitch = static_cast<std::size_t>(sheet.stride), our_pitch = static_cast<std::size_t>(host.stride);
    return direction == Direction::kToHost
               ? lane.copy_2d(host.address, our_pitch, theirs, their_pitch, sheet.width, sheet.rows)
               : lane.copy_2d(theirs, their_pitch, host.address, our_pitch, sheet.width, sheet.rows);
}

}  // namespace

void copy_on_host(Direction direction, const Sheet& sheet, const HostSide& host) {
    for (std::size_t i = 0; i < sheet.rows; ++i) {
        auto* theirs = reinterpret_cast<std::byte*>(sheet.row(i));
        std::byte* ours = host.address + static_cast<MPI_Aint>(i) * host.stride;
        if (direction == Direction::kToHost)
            std::memcpy(ours, theirs, sheet.width);
        else
            std::memcpy(theirs, ours, sheet.width);
    }
}

device::Result queue_copy(device::Lane& lane, Direction direction, const Sheet& sheet, const HostSide& host) {
    if (sheet.rows == 1)
        return copy_run(lane, direction, sheet.address, host.address, sheet.width);
    if (sheet.stride > 0 && host.stride > 0 && sheet.stride <= kMostPitch && host.stride <= kMostPitch)
        return copy_rows(lane, direction, sheet, host);
    if (sheet.stride < 0 && host.stride < 0 && sheet.stride >= -kMostPitch && host.stride >= -kMostPitch) {
        const auto last = static_cast<MPI_Aint>(sheet.rows - 1);
        const Sheet turned{sheet.low(), sheet.width, sheet.rows, -sheet.stride, 0, 0};
        return copy_rows(lane, direction, turned, {host.address + last * host.stride, -host.stride, host.pageable});
    }
    for (std::size_t i = 0; i < sheet.rows; ++i) {
        std::byte* ours = host.address + static_cast<MPI_Aint>(i) * host.stride;
        if (const device::Result result = copy_run(lane, direction, sheet.row(i), ours, sheet.width); result != 0)
            return result;
    }
    return 0;
}

Copies::Copies() : deadline_(settings::values().timeout) {}

Copies::~Copies() {
    finish();
}

device::Lane* Copies::lane_of(const Place& place, device::Result& result) {
    for (device::Lane& lane : lanes_)
        if (lane.context() == place.context)
            return &lane;
    device::Lane lane;
    result = device::Lane::acquire(place.context, lane);
    if (result == 0)
        result = lane.wait_for_program(static_cast<device::Sync>(settings::values().sync));
    if (result != 0)
        return nullptr;
    lanes_.push_back(std::move(lane));
    return &lanes_.back();
}

device::Result Copies::queue(Direction direction, const Sheet& sheet, const Place& place, const HostSide& host) {
    if (!place.device) {
        copy_on_host(direction, sheet, host);
        return 0;
    }
    device::Result result = 0;
    device::Lane* lane = lane_of(place, result);
    if (lane == nullptr)
        return result;
    queued_ = true;
    bytes_ += sheet.width * sheet.rows;
    if (!host.pageable)
        return queue_copy(*lane, direction, sheet, host);
    const std::size_t rows_at_once = std::max<std::size_t>(1, kPageableChunk / sheet.width);
    const std::size_t width_at_once = std::min(sheet.width, kPageableChunk);
    for (std::size_t i = 0; i < sheet.rows; i += rows_at_once) {
        for (std::size_t at = 0; at < sheet.width; at += width_at_once) {
            const std::size_t width = std::min(width_at_once, sheet.width - at),
                              rows = std::min(rows_at_once, sheet.rows - i);
            const Sheet part{sheet.row(i) + at, width, rows, sheet.stride, 0, 0};
            const HostSide ours{host.address + static_cast<MPI_Aint>(i) * host.stride + at, host.stride, true};
            if ((result = queue_copy(*lane, direction, part, ours)) != 0)
                return result;
            if ((uncounted_ += width * rows) >= kPageableChunk) {
                uncounted_ = 0;
                request::progress();
            }
        }
    }
    return 0;
}

device::Result Copies::wait_for(device::Lane& lane) {
    device::Result result = lane.record();
    bool done = false;
    while (result == 0 && (result = lane.query(done)) == 0 && !done) {
        request::progress();
        std::this_thread::yield();  // where cores are scarce somebody else has work to do
        if (deadline_.passed()) {
            abandoned_ = true;
            return kTimeout;
        }
    }
    return result;
}

device::Result Copies::finish() {
    device::Result first = 0;
    if (!queued_)
        return first;
    for (device::Lane& lane : lanes_) {
        const device::Result result = wait_for(lane);
        if (first == 0)
            first = result;
    }
    queued_ = false;
    return first;
}

std::string Copies::describe(device::Result result) const {
    if (result == kTimeout)
        return "not finished when SWITCHYARD_TIMEOUT had passed: the program's own work on the device may hang";
    return device::describe(result);
}

}  // namespace swy::carrier::staged
