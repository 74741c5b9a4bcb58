#include "pack/copies.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "pack/kernel_pack.hpp"
#include "progress/wait.hpp"
#include "settings/settings.hpp"

namespace swy::pack {
namespace {

// The driver's limit on the pitch of rows is 2 GiB - 1 or a little less on all devices (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
constexpr MPI_Aint kMostPitch = 0x7ffffe00;

// For pageable memory: bytes that take about a millisecond to copy.
constexpr std::size_t kPageableChunk = std::size_t{8} << 20;

constexpr device::Result kTimeout = -1;

device::Result copy_run(device::Stream& stream, Direction direction, std::uintptr_t theirs, std::byte* ours,
                        std::size_t bytes) {
    auto* device_side = reinterpret_cast<void*>(theirs);
    return direction == Direction::kToHost ? stream.copy(ours, device_side, bytes)
                                           : stream.copy(device_side, ours, bytes);
}

device::Result copy_rows(device::Stream& stream, Direction direction, const Sheet& sheet, const HostSide& host) {
    auto* theirs = reinterpret_cast<void*>(sheet.address);
    const auto their_pitch = static_cast<std::size_t>(sheet.stride), our_pitch = static_cast<std::size_t>(host.stride);
    return direction == Direction::kToHost
               ? stream.copy_2d(host.address, our_pitch, theirs, their_pitch, sheet.width, sheet.rows)
               : stream.copy_2d(theirs, their_pitch, host.address, our_pitch, sheet.width, sheet.rows);
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

device::Result queue_copy(device::Stream& stream, Direction direction, const Sheet& sheet, const HostSide& host) {
    if (sheet.rows == 1)
        return copy_run(stream, direction, sheet.address, host.address, sheet.width);
    if (sheet.stride > 0 && host.stride > 0 && sheet.stride <= kMostPitch && host.stride <= kMostPitch)
        return copy_rows(stream, direction, sheet, host);
    if (sheet.stride < 0 && host.stride < 0 && sheet.stride >= -kMostPitch && host.stride >= -kMostPitch) {
        const auto last = static_cast<MPI_Aint>(sheet.rows - 1);
        const Sheet turned{sheet.low(), sheet.width, sheet.rows, -sheet.stride, 0, 0};
        return copy_rows(stream, direction, turned, {host.address + last * host.stride, -host.stride, host.pageable});
    }
    for (std::size_t i = 0; i < sheet.rows; ++i) {
        std::byte* ours = host.address + static_cast<MPI_Aint>(i) * host.stride;
        if (const device::Result result = copy_run(stream, direction, sheet.row(i), ours, sheet.width); result != 0)
            return result;
    }
    return 0;
}

Copies::~Copies() {
    finish();
}

Copies::Stream* Copies::stream_of(const MemoryRange& range, device::Result& result) {
    for (Stream& stream : streams_) {
        if (stream.stream.context() != range.context)
            continue;
        if (after_ == After::kProgram && stream.stream.has_to_wait_again())
            result = progress::wait_for_program(stream.stream);
        return result == 0 ? &stream : nullptr;
    }
    Stream stream;
    result = device::Stream::acquire(range.context, stream.stream);
    if (result == 0 && after_ == After::kProgram)
        result = progress::wait_for_program(stream.stream);
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

device::Result Copies::queue(Direction direction, const Sheet& sheet, const MemoryRange& range, const HostSide& host) {
    if (!range.device) {
        copy_on_host(direction, sheet, host);
        return 0;
    }
    device::Result result = 0;
    Stream* stream = stream_of(range, result);
    if (stream == nullptr)
        return result;
    use(*stream);
    if (!host.pageable)
        return queue_copy(stream->stream, direction, sheet, host);
    pageable_.push_back({static_cast<std::size_t>(stream - streams_.data()), direction, sheet, host});
    return 0;
}

bool Copies::queue_by_kernel(Direction direction, const Segment& segment, const void* address, MemoryRanges& ranges,
                             std::byte* host, device::Result& result) {
    const Elements elements{segment.layout, segment.count,
                            reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(segment.offset)};
    MemoryRange range;
    if (!suits_kernel(elements, ranges, range))
        return false;
    result = 0;
    Stream* stream = stream_of(range, result);
    if (stream != nullptr && !stream->stream.has_kernels())
        return false;
    if (stream == nullptr)
        return true;
    use(*stream);
    const std::size_t bytes = segment.count * segment.layout->size;
    result = queue_kernel(stream->stream, direction, elements, 0, bytes, host);
    return true;
}

device::Result Copies::await_program(const MemoryRange& range) {
    device::Result result = 0;
    if (!range.device)
        return result;
    if (Stream* stream = stream_of(range, result))
        use(*stream);
    return result;
}

// Looks whether the stream's work is done. A stream on which no event can be recorded has lost its context, and its
// work with it.
void Copies::look(Stream& stream) {
    device::Result result = 0;
    bool reached = false;
    if (!stream.marked) {
        result = stream.stream.record();
        stream.marked = true;
    }
    if (result == 0)
        result = stream.stream.query(reached);
    stream.busy = result == 0 && !reached;
    if (failure_ == 0)
        failure_ = result;
}

// Copies some pageable memory. The driver would wait for what is on the stream before: this is called when nothing is.
void Copies::copy_some_pageable() {
    for (std::size_t left = kPageableChunk; left > 0 && next_ < pageable_.size() && failure_ == 0;) {
        const auto& [stream, direction, sheet, host] = pageable_[next_];
        const std::size_t width = std::min(sheet.width - in_row_, left);
        const std::size_t rows = width < sheet.width ? 1 : std::min(sheet.rows - row_, left / width);
        const Sheet part{sheet.row(row_) + in_row_, width, rows, sheet.stride, 0, 0};
        const HostSide ours{host.address + static_cast<MPI_Aint>(row_) * host.stride + in_row_, host.stride, true};
        use(streams_[stream]);
        failure_ = queue_copy(streams_[stream].stream, direction, part, ours);
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
        progress::progress();
        std::this_thread::yield();  // where there are more threads than cores another one else has work to do
    }
}

std::string Copies::describe(device::Result result) {
    if (result == kTimeout)
        return "not finished when SWITCHYARD_TIMEOUT had passed: the program's own work on the device may hang";
    return device::describe(result);
}

}  // namespace swy::pack
