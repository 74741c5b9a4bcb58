#include "carrier/staged/pack.hpp"

#include <new>
#include <utility>

#include "carrier/staged/kernel_pack.hpp"
#include "settings/settings.hpp"

namespace swy::carrier::staged {
namespace {

constexpr device::Result kNoHostMemory = -2;  // beside CUDA's results

device::Result without_exceptions(auto&& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return kNoHostMemory;
    }
}

Elements elements_of(const p2p::Payload& payload) {
    return {payload.layout.get(), payload.count, reinterpret_cast<std::uintptr_t>(payload.address)};
}

}  // namespace

class Packer::Finder final : public Visitor {
  public:
    explicit Finder(Packer& packer) : packer_(packer) {}
    device::Result visit(const Segment&, const Sheet&, const Place& place) override {
        Stream* stream = nullptr;
        return place.device ? packer_.stream_of(place, stream) : 0;
    }

  private:
    Packer& packer_;
};

class Packer::Copier final : public Visitor {
  public:
    Copier(Packer& packer, Direction direction, std::byte* host)
        : packer_(packer), direction_(direction), host_(host) {}
    device::Result visit(const Segment&, const Sheet& sheet, const Place& place) override {
        const HostSide ours{host_ + sheet.packed, static_cast<MPI_Aint>(sheet.packed_stride), false};
        if (!place.device) {
            copy_on_host(direction_, sheet, ours);
            return 0;
        }
        Stream* stream = nullptr;
        if (const device::Result result = packer_.stream_of(place, stream); result != 0)
            return result;
        stream->busy = true;
        return queue_copy(stream->lane, direction_, sheet, ours);
    }

  private:
    Packer& packer_;
    const Direction direction_;
    std::byte* const host_;
};

Packer::Packer(const p2p::Payload& payload, std::size_t bytes)
    : payload_(payload), bytes_(bytes), parts_(payload.layout, payload.count) {}

device::Result Packer::stream_of(const Place& place, Stream*& stream) {
    for (Stream& known : streams_)
        if (known.lane.context() == place.context) {
            stream = &known;
            return 0;
        }
    Stream made;
    device::Result result = device::Lane::acquire(place.context, made.lane);
    if (result == 0)
        result = made.lane.wait_for_program(static_cast<device::Sync>(settings::values().sync));
    if (result != 0)
        return result;
    streams_.push_back(std::move(made));
    stream = &streams_.back();
    return 0;
}

device::Result Packer::find_devices() {
    return without_exceptions([&] {
        Place place;
        if (suits_kernel(elements_of(payload_), places_, place)) {
            Stream* stream = nullptr;
            kernel_place_ = place;
            return stream_of(place, stream);
        }
        Finder finder(*this);
        return walk({{&parts_.cut(0, bytes_), 0, 1, 0}}, payload_.address, places_, finder);
    });
}

// The GPU can reach page-locked memory alone.
bool Packer::kernel_takes(const std::byte* host, std::size_t n, Stream*& stream) {
    if (!kernel_place_.has_value() || stream_of(*kernel_place_, stream) != 0 || !stream->lane.has_kernels())
        return false;
    const device::Location location = device::locate(host);
    return location.kind == device::Kind::kPinned && reinterpret_cast<std::uintptr_t>(host) + n <= location.end;
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

device::Result Packer::start(Direction direction, std::size_t from, std::size_t n, std::byte* host) {
    const device::Result result = without_exceptions([&] {
        if (Stream* stream = nullptr; kernel_takes(host, n, stream)) {
            stream->busy = true;
            return queue_kernel(stream->lane, direction, elements_of(payload_), from, n, host);
        }
        Copier copier(*this, direction, host);
        return walk({{&parts_.cut(from, n), 0, 1, 0}}, payload_.address, places_, copier);
    });
    const device::Result recorded = record();
    return result != 0 ? result : recorded;
}

// A stream on which no mark can be set has lost its context, and its work with it.
device::Result Packer::record() {
    device::Result first = 0;
    for (Stream& stream : streams_) {
        if (!stream.busy)
            continue;
        const device::Result result = stream.lane.record();
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
        const device::Result result = stream.lane.query(reached);
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

}  // namespace swy::carrier::staged
