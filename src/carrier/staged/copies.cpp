#include "carrier/staged/copies.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "carrier/staged/kernel_pack.hpp"
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

Copies::~Copies() {
    finish();
}

Copies::Stream* Copies::stream_of(const Place& place, device::Result& result) {
    for (Stream& stream : streams_)
        if (stream.lane.context() == place.context)
            return &stream;
    Stream stream;
    result = device::Lane::acquire(place.context, stream.lane);
    if (result == 0 && after_ == After::kProgram)
        result = stream.lane.wait_for_program(static_cast<device::Sync>(settings::values().sync));
    if (result != 0)
        return nullptr;
    streams_.push_back(std::move(stream));
    return &streams_.back();
}

void Copies::use(Stream& stream) {
    if (!queued_)
        deadline_.emplace(settings::values().timeout);
    queued_ = true;
    stream.busy = true;
    stream.marked = false;
}

device::Result Copies::queue(Direction direction, const Sheet& sheet, const Place& place, const HostSide& host) {
    if (!place.device) {
        copy_on_host(direction, sheet, host);
        return 0;
    }
    device::Result result = 0;
    Stream* stream = stream_of(place, result);
    if (stream == nullptr)
        return result;
    use(*stream);
    bytes_ += sheet.width * sheet.rows;
    if (!host.pageable)
        return queue_copy(stream->lane, direction, sheet, host);
    pageable_.push_back({static_cast<std::size_t>(stream - streams_.data()), direction, sheet, host});
    return 0;
}

bool Copies::queue_by_kernel(Direction direction, const Segment& segment, const void* address, Places& places,
                             std::byte* host, device::Result& result) {
    const Elements elements{segment.layout, segment.count,
                            reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(segment.offset)};
    Place place;
    if (!suits_kernel(elements, places, place))
        return false;
    result = 0;
    Stream* stream = stream_of(place, result);
    if (stream != nullptr && !stream->lane.has_kernels())
        return false;
    if (stream == nullptr)
        return true;
    use(*stream);
    const std::size_t bytes = segment.count * segment.layout->size;
    bytes_ += bytes;
    result = queue_kernel(stream->lane, direction, elements, 0, bytes, host);
    return true;
}

device::Result Copies::await_program(const Place& place) {
    device::Result result = 0;
    if (!place.device)
        return result;
    if (Stream* stream = stream_of(place, result))
        use(*stream);
    return result;
}

// A stream on which no mark can be set has lost its context, and its work with it.
void Copies::look(Stream& stream) {
    device::Result result = 0;
    bool reached = false;
    if (!stream.marked) {
        result = stream.lane.record();
        stream.marked = true;
    }
    if (result == 0)
        result = stream.lane.query(reached);
    stream.busy = result == 0 && !reached;
    if (failure_ == 0)
        failure_ = result;
}

// The driver would wait for what is on the stream before: this comes when nothing is.
void Copies::copy_some_pageable() {
    for (std::size_t left = kPageableChunk; left > 0 && next_ < pageable_.size() && failure_ == 0;) {
        const auto& [stream, direction, sheet, host] = pageable_[next_];
        const std::size_t width = std::min(sheet.width - in_row_, left);
        const std::size_t rows = width < sheet.width ? 1 : std::min(sheet.rows - row_, left / width);
        const Sheet part{sheet.row(row_) + in_row_, width, rows, sheet.stride, 0, 0};
        const HostSide ours{host.address + static_cast<MPI_Aint>(row_) * host.stride + in_row_, host.stride, true};
        use(streams_[stream]);
        failure_ = queue_copy(streams_[stream].lane, direction, part, ours);
        left -= width * rows;
        in_row_ = (in_row_ + width) % sheet.width;
        row_ += in_row_ == 0 ? rows : 0;
        if (row_ == sheet.rows) {
            row_ = 0;
            ++next_;
        }
    }
}

device::Result Copies::abandon() {
    abandoned_ = true;
    queued_ = false;
    return kTimeout;
}

device::Result Copies::query(bool& done) {
    done = !queued_;
    if (done)
        return 0;
    bool busy = false;
    for (Stream& stream : streams_) {
        if (stream.busy)
            look(stream);
        busy |= stream.busy;
    }
    if (busy) {
        done = deadline_->passed();
        return done ? abandon() : 0;
    }
    if (failure_ == 0 && next_ < pageable_.size()) {
        copy_some_pageable();
        return 0;
    }
    pageable_.clear();
    next_ = row_ = in_row_ = 0;
    queued_ = false;
    done = true;
    return std::exchange(failure_, 0);
}

device::Result Copies::finish() {
    for (;;) {
        bool done = false;
        const device::Result result = query(done);
        if (done)
            return result;
        request::progress();
        std::this_thread::yield();  // where cores are scarce somebody else has work to do
    }
}

std::string Copies::describe(device::Result result) {
    if (result == kTimeout)
        return "not finished when SWITCHYARD_TIMEOUT had passed: the program's own work on the device may hang";
    return device::describe(result);
}

}  // namespace swy::carrier::staged
