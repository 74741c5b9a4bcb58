#include "pack/pack.hpp"

#include <new>
#include <utility>

#include "pack/kernel_pack.hpp"
#include "progress/wait.hpp"

namespace swy::pack {
namespace {

constexpr device::Result kNoHostMemory = -2;  // besides CUDA's results

device::Result without_exceptions(auto&& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return kNoHostMemory;
    }
}

Elements elements_of(const Payload& payload) {
    return {payload.layout.get(), payload.count, reinterpret_cast<std::uintptr_t>(payload.address)};
}

}  // namespace

class Packer::Finder final : public Visitor {
  public:
    explicit Finder(Packer& packer) : packer_(packer) {}
    device::Result visit(const Segment&, const Sheet&, const MemoryRange& range) override {
        Stream* stream = nullptr;
        return range.device ? packer_.stream_of(range, stream) : 0;
    }

  private:
    Packer& packer_;
};

class Packer::Copier final : public Visitor {
  public:
    Copier(Packer& packer, Direction direction, std::byte* host)
        : packer_(packer), direction_(direction), host_(host) {}
    device::Result visit(const Segment&, const Sheet& sheet, const MemoryRange& range) override {
        const HostSide ours{host_ + sheet.packed, static_cast<MPI_Aint>(sheet.packed_stride), false};
        if (!range.device) {
            copy_on_host(direction_, sheet, ours);
            return 0;
        }
        Stream* stream = nullptr;
        if (const device::Result result = packer_.stream_of(range, stream); result != 0)
            return result;
        stream->busy = true;
        return queue_copy(stream->stream, direction_, sheet, ours);
    }

  private:
    Packer& packer_;
    const Direction direction_;
    std::byte* const host_;
};

Packer::Packer(const Payload& payload, std::size_t bytes)
    : payload_(payload), bytes_(bytes), parts_(payload.layout, payload.count) {
    if (payload.device)
        ranges_.know(payload.where);
}

device::Result Packer::stream_of(const MemoryRange& range, Stream*& stream) {
    for (Stream& known : streams_)
        if (known.stream.context() == range.context) {
            stream = &known;
            return known.stream.has_to_wait_again() ? progress::wait_for_program(known.stream) : 0;
        }
    Stream made;
    device::Result result = device::Stream::acquire(range.context, made.stream);
    if (result == 0)
        result = progress::wait_for_program(made.stream);
    if (result != 0)
        return result;
    streams_.push_back(std::move(made));
    stream = &streams_.back();
    return 0;
}

device::Result Packer::find_devices() {
    return without_exceptions([&] {
        MemoryRange range;
        if (suits_kernel(elements_of(payload_), ranges_, range)) {
            Stream* stream = nullptr;
            kernel_range_ = range;
            return stream_of(range, stream);
        }
        Finder finder(*this);
        return walk({{&parts_.cut(0, bytes_), 0, 1, 0}}, payload_.address, ranges_, finder);
    });
}

// Tells whether a kernel can make the copy. Of host memory the GPU can reach page-locked memory only; of device memory
// what belongs to its context, which is where another process's has been mapped.
bool Packer::kernel_takes(const std::byte* host, std::size_t n, Stream*& stream) {
    if (!kernel_range_.has_value() || stream_of(*kernel_range_, stream) != 0 || !stream->stream.has_kernels())
        return false;
    const device::Location location = device::locate(host);
    const bool in_reach = location.kind == device::Kind::kPinned ||
                          (location.kind == device::Kind::kDevice && location.context == kernel_range_->context);
    return in_reach && reinterpret_cast<std::uintptr_t>(host) + n <= location.end;
}

device::Result Packer::prepare(bool& ready) {
    ready = false;
    if (!found_) {
        found_ = true;
        device::Result result = payload_.device ? find_devices() : 0;
        for (Stream& stream : streams_)
            stream.busy = true;
        if (const device::Result recorded = record(); result == 0)
            result = recorded;
        if (result != 0)
            return result;
    }
    return query(ready);
}

device::Result Packer::prepare_in_order() {
    if (std::exchange(found_, true) || !payload_.device)
        return 0;
    return find_devices();
}

device::Result Packer::start(Direction direction, std::size_t from, std::size_t n, std::byte* host) {
    const device::Result result = without_exceptions([&] {
        if (Stream* stream = nullptr; kernel_takes(host, n, stream)) {
            stream->busy = true;
            return queue_kernel(stream->stream, direction, elements_of(payload_), from, n, host);
        }
        Copier copier(*this, direction, host);
        return walk({{&parts_.cut(from, n), 0, 1, 0}}, payload_.address, ranges_, copier);
    });
    const device::Result recorded = record();
    return result != 0 ? result : recorded;
}

// Records the events of the busy streams. A stream on which no event can be recorded has lost its context, and its work
// with it.
device::Result Packer::record() {
    device::Result first = 0;
    for (Stream& stream : streams_) {
        if (!stream.busy)
            continue;
        const device::Result result = stream.stream.record();
        stream.busy = result == 0;
        if (first == 0)
            first = result;
    }
    return first;
}

device::Result Packer::query(bool& done) {
    device::Result first = 0;
    done = true;
    for (Stream& stream : streams_) {
        if (!stream.busy)
            continue;
        bool reached = false;
        const device::Result result = stream.stream.query(reached);
        stream.busy = result == 0 && !reached;
        done = done && !stream.busy;
        if (first == 0)
            first = result;
    }
    return first;
}

std::string Packer::describe(device::Result result) {
    return result == kNoHostMemory ? "no host memory" : device::describe(result);
}

}  // namespace swy::pack
