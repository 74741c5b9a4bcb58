#include "window/mirror.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

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

// All mirrors are locked, always in the order in which the window got them.
template <typename Work>
staging::Failure Mirror::on(All all, Work work) {
    std::vector<std::unique_lock<std::mutex>> locks;
    std::vector<Mirror*> sound;
    staging::Failure failure;
    for (const std::shared_ptr<Mirror>& mirror : all) {
        locks.emplace_back(mirror->mutex_);
        if (!failure)
            failure = mirror->failure_;
        if (!mirror->failure_ && mirror->bytes_ > 0)
            sound.push_back(mirror.get());
    }
    if (sound.empty())
        return failure;
    staging::Failure now;
    try {
        if (const device::Result result = work(sound); result != 0)
            now = {MPI_ERR_OTHER, fmt::format("copying between a window on a device and the host memory that stands "
                                              "for it failed: {}",
                                              pack::Copies::describe(result))};
    } catch (const std::bad_alloc&) {
        now = no_memory(sound.front()->bytes_);
    }
    for (Mirror* mirror : sound)
        mirror->failure_ = now;
    return failure ? failure : now;
}

staging::Failure Mirror::fill(All all) {
    return on(all, [](std::span<Mirror* const> mirrors) {
        pack::Copies copies(pack::Copies::After::kProgram);
        device::Result result = 0;
        for (Mirror* one : mirrors)
            if (result == 0)
                result = one->copy(copies, pack::Direction::kToHost, 0, one->bytes_, one->snapshot_.data(),
                                   one->snapshot_.pageable());
        const device::Result finished = copies.finish();
        for (Mirror* one : mirrors)
            std::memcpy(one->public_, one->snapshot_.data(), one->bytes_);
        return result != 0 ? result : finished;
    });
}

staging::Failure Mirror::publish(All all) {
    return on(all, [](std::span<Mirror* const> mirrors) {
        std::size_t total = 0;
        for (const Mirror* one : mirrors)
            total += one->bytes_;
        staging::Memory seen;
        if (const std::size_t most = std::min(total, kChunk);
            !seen.acquire(device::locate(mirrors.front()->base_).context, most, most))
            throw std::bad_alloc();
        std::vector<Part> parts;
        std::size_t room = kChunk;
        device::Result result = 0;
        for (Mirror* one : mirrors)
            for (std::size_t at = 0; at < one->bytes_ && result == 0;) {
                const std::size_t length = std::min(room, one->bytes_ - at);
                parts.push_back({one, at, length});
                at += length;
                room -= length;
                if (room > 0)
                    continue;
                result = download(parts, seen);
                parts.clear();
                room = kChunk;
            }
        return result != 0 ? result : download(parts, seen);
    });
}

device::Result Mirror::download(std::span<const Part> parts, const staging::Memory& seen) {
    pack::Copies copies(pack::Copies::After::kProgram);
    std::byte* to = seen.data();
    device::Result result = 0;
    for (const Part& part : parts) {
        if (result == 0)
            result = part.mirror->copy(copies, pack::Direction::kToHost, part.from, part.bytes, to, seen.pageable());
        to += part.bytes;
    }
    if (const device::Result finished = copies.finish(); result != 0 || finished != 0)
        return result != 0 ? result : finished;
    to = seen.data();
    for (const Part& part : parts) {
        part.mirror->compare(part, to);
        to += part.bytes;
    }
    return 0;
}

void Mirror::compare(const Part& part, const std::byte* seen) {
    std::byte* const before = snapshot_.data() + part.from;
    each_difference(seen, before, part.bytes, [&](std::size_t from, std::size_t bytes) {
        std::memcpy(before + from, seen + from, bytes);
        std::memcpy(public_ + part.from + from, seen + from, bytes);
    });
}

staging::Failure Mirror::update(All all) {
    return on(all, [](std::span<Mirror* const> mirrors) {
        pack::Copies copies(pack::Copies::After::kProgram);
        device::Result result = 0;
        for (Mirror* one : mirrors)
            if (result == 0)
                result = one->upload(copies);
        const device::Result finished = copies.finish();
        return result != 0 ? result : finished;
    });
}

// Each byte of the mirror that differs is read once, into the snapshot, and copied from there: another rank may write
// to the mirror meanwhile, and what it writes later differs the next time.
device::Result Mirror::upload(pack::Copies& copies) {
    device::Result result = 0;
    each_difference(public_, snapshot_.data(), bytes_, [&](std::size_t from, std::size_t bytes) {
        std::memcpy(snapshot_.data() + from, public_ + from, bytes);
        if (result == 0)
            result =
                copy(copies, pack::Direction::kToDevice, from, bytes, snapshot_.data() + from, snapshot_.pageable());
    });
    return result;
}

device::Result Mirror::copy(pack::Copies& copies, pack::Direction direction, std::size_t from, std::size_t bytes,
                            const std::byte* host, bool pageable) {
    const auto layout = datatype::layout_of(MPI_BYTE);
    Queue queue(copies, direction, reinterpret_cast<std::uintptr_t>(base_) + from, const_cast<std::byte*>(host),
                pageable);
    return pack::walk({{layout.get(), static_cast<MPI_Aint>(from), bytes, 0}}, base_, places_, queue);
}

}  // namespace swy::window
