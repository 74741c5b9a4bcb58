#include "pack/payload.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "pack/pieces.hpp"

namespace swy::pack {
namespace {

class FirstOnDevice final : public Visitor {
  public:
    device::Result visit(const Segment&, const Sheet& sheet, const MemoryRange& range) override {
        if (!range.device)
            return 0;
        address = reinterpret_cast<const void*>(sheet.address);
        return 1;
    }
    const void* address = nullptr;
};

// Describes the data as one run, where it is one.
void find_run(Payload& payload) {
    const datatype::Layout& layout = *payload.layout;
    MPI_Aint offset = 0;
    if (payload.bytes == 0 || layout.contiguous)
        offset = layout.true_lb;
    else if (payload.count == 1 && layout.blocks.size() == 1 && layout.blocks[0].dims == 0)
        offset = layout.blocks[0].offset;
    else
        return;
    payload.contiguous = true;
    payload.data = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(payload.address) +
                                                static_cast<std::uintptr_t>(offset));
}

// Where the first of its bytes lies that is in device memory; in host memory where none is.
device::Location first_on_device(const Payload& payload) {
    if (payload.contiguous && payload.address != MPI_BOTTOM)
        return device::known_host(payload.data) ? device::Location{} : device::locate(payload.data);
    MemoryRanges ranges;
    FirstOnDevice visitor;
    walk({{payload.layout.get(), 0, payload.count, 0}}, payload.address, ranges, visitor);
    return visitor.address != nullptr ? device::locate(visitor.address) : device::Location{};
}

}  // namespace

const void* Payload::first_byte() const {
    if (bytes == 0 || contiguous)
        return bytes == 0 ? nullptr : data;
    const auto& blocks = layout->blocks;
    const auto first = std::min_element(blocks.begin(), blocks.end(),
                                        [](const auto& one, const auto& other) { return one.packed < other.packed; });
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(address) +
                                         static_cast<std::uintptr_t>(first->offset));
}

bool Payload::all_on_devices() const {
    if (runs.empty())
        return device;
    return std::all_of(ranges.begin(), ranges.end(), [](const device::Location& at) { return at.on_device(); });
}

namespace {

void find_runs(const Call& call, std::span<const Operand> buffers, Payload& payload) {
    for (const Operand& buffer : buffers) {
        const Payload one = payload_of(call, buffer);
        if (!one.contiguous) {
            payload.runs.clear();
            payload.ranges.clear();
            return;
        }
        payload.runs.push_back(one.data);
        payload.ranges.push_back(one.where);
    }
}

}  // namespace

Payload host_payload(void* address, std::size_t count, std::shared_ptr<const datatype::Layout> layout) {
    Payload payload;
    payload.address = address;
    payload.count = count;
    payload.layout = std::move(layout);
    payload.bytes = count * payload.layout->size;
    find_run(payload);
    return payload;
}

Payload payload_of(const Call& call, const Operand& operand, std::span<const Operand> buffers) {
    Payload payload =
        host_payload(operand.address, static_cast<std::size_t>(operand.count), datatype::layout_of(operand.type));
    if (payload.bytes == 0)
        return payload;
    if (device::Location first = first_on_device(payload); first.on_device()) {
        payload.device = true;
        payload.where = first;
        find_runs(call, buffers, payload);
    }
    return payload;
}

}  // namespace swy::pack
