#include "window/mirror.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "datatype/layout.hpp"
#include "device/device.hpp"

namespace swy::window {
namespace {

constexpr std::size_t kLine = 64;                     // the mirror lies in its cache lines as the window in its own
constexpr std::size_t kChunk = std::size_t{8} << 20;  // of device memory that is compared at a time
constexpr std::size_t kCompared = 256;                // bytes

// Calls `run` for each run of bytes in which `now` and `before` differ, from the first to the last.
template <typename Run>
void each_difference(const std::byte* now, const std::byte* before, std::size_t bytes, Run run) {
    std::size_t begin = bytes;  // of the run that has not ended
    for (std::size_t at = 0; at < bytes; at += kCompared) {
        const std::size_t length = std::min(kCompared, bytes - at);
        if (begin == bytes && std::memcmp(now + at, before + at, length) == 0)
            continue;
        for (std::size_t i = at; i < at + length; ++i) {
            const bool differs = now[i] != before[i];
            if (differs && begin == bytes)
                begin = i;
            if (differs || begin == bytes)
                continue;
            run(begin, i - begin);
            begin = bytes;
        }
    }
    if (begin != bytes)
        run(begin, bytes - begin);
}

// Queues the copies of a run of the window, which lies in one allocation or in several.
class Queue final : public pack::Visitor {
  public:
    Queue(pack::Copies& copies, pack::Direction direction, std::uintptr_t from, std::byte* host, bool pageable)
        : copies_(copies), direction_(direction), from_(from), host_(host), pageable_(pageable) {}

    device::Result visit(const pack::Segment&, const pack::Sheet& sheet, const pack::MemoryRange& range) override {
        return copies_.queue(direction_, sheet, range, {host_ + (sheet.address - from_), 0, pageable_});
    }

  private:
    pack::Copies& copies_;
    const pack::Direction direction_;
    const std::uintptr_t from_;
    std::byte* const host_;
    const bool pageable_;
};

staging::Failure no_memory(std::size_t bytes) {
    return {MPI_ERR_NO_MEM, fmt::format("a window of {} bytes on a device has no host memory to stand for it", bytes)};
}

}  // namespace

staging::Failure Mirror::prepare() {
    const device::Context context = device::locate(base_).context;
    if (!mirror_.acquire(context, bytes_ + 2 * kLine, 0) || !snapshot_.acquire(context, bytes_ + kLine, bytes_))
        return no_memory(bytes_);
    const auto start = reinterpret_cast<std::uintptr_t>(mirror_.data());
    public_ = mirror_.data() + (reinterpret_cast<std::uintptr_t>(base_) - start) % kLine;
    return {};
}

template <typename Work>
staging::Failure Mirror::once(Work work) {
    const std::scoped_lock lock(mutex_);
    if (failure_ || bytes_ == 0)
        return failure_;
    try {
        if (const device::Result result = work(); result != 0)
            failure_ = {MPI_ERR_OTHER, fmt::format("copying between a window on a device and the host memory that "
                                                   "stands for it failed: {}",
                                                   pack::Copies::describe(result))};
    } catch (const std::bad_alloc&) {
        failure_ = no_memory(bytes_);
    }
    return failure_;
}

staging::Failure Mirror::fill() {
    return once([this] {
        pack::Copies copies(pack::Copies::After::kProgram);
        const device::Result result =
            copy(copies, pack::Direction::kToHost, 0, bytes_, snapshot_.data(), snapshot_.pageable());
        const device::Result finished = copies.finish();
        std::memcpy(public_, snapshot_.data(), bytes_);
        return result != 0 ? result : finished;
    });
}

staging::Failure Mirror::publish() {
    return once([this] { return download(); });
}

staging::Failure Mirror::update() {
    return once([this] { return upload(); });
}

device::Result Mirror::download() {
    staging::Memory seen;
    if (!seen.acquire(device::locate(base_).context, std::min(bytes_, kChunk), std::min(bytes_, kChunk)))
        throw std::bad_alloc();
    pack::Copies copies(pack::Copies::After::kProgram);
    for (std::size_t at = 0; at < bytes_; at += kChunk) {
        const std::size_t length = std::min(kChunk, bytes_ - at);
        const device::Result queued = copy(copies, pack::Direction::kToHost, at, length, seen.data(), seen.pageable());
        if (const device::Result finished = copies.finish(); queued != 0 || finished != 0)
            return queued != 0 ? queued : finished;
        std::byte* const before = snapshot_.data() + at;
        each_difference(seen.data(), before, length, [&](std::size_t from, std::size_t bytes) {
            std::memcpy(before + from, seen.data() + from, bytes);
            std::memcpy(public_ + at + from, seen.data() + from, bytes);
        });
    }
    return 0;
}

// Each byte of the mirror that differs is read once, into the snapshot, and copied from there: another rank may write
// to the mirror meanwhile, and what it writes later differs the next time.
device::Result Mirror::upload() {
    pack::Copies copies(pack::Copies::After::kProgram);
    device::Result result = 0;
    each_difference(public_, snapshot_.data(), bytes_, [&](std::size_t from, std::size_t bytes) {
        std::memcpy(snapshot_.data() + from, public_ + from, bytes);
        if (result == 0)
            result =
                copy(copies, pack::Direction::kToDevice, from, bytes, snapshot_.data() + from, snapshot_.pageable());
    });
    const device::Result finished = copies.finish();
    return result != 0 ? result : finished;
}

device::Result Mirror::copy(pack::Copies& copies, pack::Direction direction, std::size_t from, std::size_t bytes,
                            const std::byte* host, bool pageable) {
    const auto layout = datatype::layout_of(MPI_BYTE);
    Queue queue(copies, direction, reinterpret_cast<std::uintptr_t>(base_) + from, const_cast<std::byte*>(host),
                pageable);
    return pack::walk({{layout.get(), static_cast<MPI_Aint>(from), bytes, 0}}, base_, places_, queue);
}

}  // namespace swy::window
