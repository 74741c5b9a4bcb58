#include "nccl/packing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "datatype/layout.hpp"
#include "datatype/plan.hpp"
#include "datatype/quick.hpp"
#include "pack/kernel_pack.hpp"

namespace swy::nccl {
namespace {

constexpr std::size_t kAlignment = 256;  // of each operand's packed form

bool contiguous(const pack::Data& data) {
    for (const std::vector<pack::Segment>* part : {&data.reads, &data.writes})
        for (const pack::Segment& segment : *part)
            if (!segment.layout->contiguous)
                return false;
    return true;
}

std::size_t packed_bytes(const pack::Data& data) {
    std::size_t end = 0;
    for (const std::vector<pack::Segment>* part : {&data.reads, &data.writes})
        for (const pack::Segment& segment : *part)
            end = std::max(end, segment.packed + segment.count * segment.layout->size);
    return (end + kAlignment - 1) / kAlignment * kAlignment;
}

std::shared_ptr<const datatype::Layout> owner_of(const datatype::Layout* layout, const pack::Data& data) {
    return *std::find_if(data.layouts.begin(), data.layouts.end(), [&](const auto& l) { return l.get() == layout; });
}

// Adds a segment. All of it must be in one allocation of the work's device, where a kernel, or one copy, packs it.
Reason add(const pack::Segment& segment, const Operand& operand, const pack::Data& data, std::byte* packed, Work& work,
           std::vector<Packing>& to) {
    const auto address =
        reinterpret_cast<std::uintptr_t>(operand.address) + static_cast<std::uintptr_t>(segment.offset);
    const pack::Elements elements{segment.layout, segment.count, address};
    pack::MemoryRanges places;
    pack::MemoryRange place;
    if (!segment.layout->contiguous && segment.layout->plan == nullptr)
        return Reason::kDerivedType;
    if (!pack::in_one_place(elements, places, place))
        return place.device ? Reason::kDerivedType : Reason::kMixed;  // absolute addresses may point anywhere
    const auto first = address + static_cast<std::uintptr_t>(segment.layout->true_lb);
    if (const Reason obstacle = take_location(reinterpret_cast<const void*>(first), work); obstacle != Reason::kNone)
        return obstacle;
    to.push_back({owner_of(segment.layout, data), segment.count, address, packed + segment.packed});
    return Reason::kNone;
}

device::Result queue(const Packing& packing, pack::Direction direction, device::Stream& device_stream) {
    const datatype::Layout& layout = *packing.layout;
    const std::size_t bytes = packing.count * layout.size;
    if (!layout.contiguous)
        return pack::queue_kernel(device_stream, direction, {&layout, packing.count, packing.address}, 0, bytes,
                                  packing.packed);
    auto* memory = reinterpret_cast<void*>(packing.address + static_cast<std::uintptr_t>(layout.true_lb));
    return direction == pack::Direction::kToHost ? device_stream.copy(packing.packed, memory, bytes)
                                                 : device_stream.copy(memory, packing.packed, bytes);
}

std::string queue_all(const std::vector<Packing>& all, pack::Direction direction, const char* what,
                      device::Stream& device_stream) {
    for (const Packing& packing : all)
        if (const device::Result result = queue(packing, direction, device_stream); result != 0)
            return fmt::format("{}: {}", what, device::describe(result));
    return {};
}

}  // namespace

bool PackedCall::wanted(const Call& call) {
    if (call.op != MPI_OP_NULL || call.operands.size() > 2)
        return false;
    return std::any_of(call.operands.begin(), call.operands.end(), [&](const Operand& operand) {
        const bool plain = operand.types == nullptr && datatype::predefined_size(operand.type) != 0 &&
                           datatype::layout_of(operand.type)->contiguous;
        return !plain && !contiguous(pack::data_of(call, operand));
    });
}

Reason PackedCall::make(const Call& call, Work& work) {
    std::array<pack::Data, 2> data;
    std::array<std::size_t, 2> bytes{};
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
        data[i] = pack::data_of(call, call.operands[i]);
        bytes[i] = contiguous(data[i]) ? 0 : packed_bytes(data[i]);
    }
    // The location of the data decides in which context memory is acquired.
    std::byte* packed = nullptr;
    const auto collect = [&](std::vector<Packing>& packs, std::vector<Packing>& unpacks) {
        std::byte* at = packed;
        for (std::size_t i = 0; i < call.operands.size(); ++i) {
            if (bytes[i] == 0)
                continue;
            for (const auto& [segments, to] : {std::pair{&data[i].reads, &packs}, {&data[i].writes, &unpacks}})
                for (const pack::Segment& segment : *segments)
                    if (const Reason obstacle = add(segment, call.operands[i], data[i], at, work, *to);
                        obstacle != Reason::kNone)
                        return obstacle;
            at += bytes[i];
        }
        return Reason::kNone;
    };
    std::vector<Packing> packs, unpacks;
    if (const Reason obstacle = collect(packs, unpacks); obstacle != Reason::kNone)
        return obstacle;
    device::Stream device_stream;
    if (device::Stream::acquire(work.location.context, device_stream) != 0 || !device_stream.has_kernels())
        return Reason::kDerivedType;
    if (device::Scratch::acquire(work.location.context, bytes[0] + bytes[1], work.packed) != 0)
        return Reason::kNoMemory;
    packed = static_cast<std::byte*>(work.packed.data());
    collect(work.packs, work.unpacks);
    call_ = call;
    std::byte* at = packed;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
        operands_[i] = call.operands[i];
        if (bytes[i] != 0)
            replace(operands_[i], arrays_[i], data[i], at);
        at += bytes[i];
    }
    call_.operands = {operands_.data(), call.operands.size()};
    return Reason::kNone;
}

// Replaces the operand by its packed form: the same data as bytes, one block behind the other.
void PackedCall::replace(Operand& operand, Arrays& arrays, const pack::Data& data, std::byte* packed) {
    const auto size_of = [&](std::size_t r) {
        return datatype::size_of(operand.types != nullptr ? operand.types[r] : operand.type);
    };
    for (std::size_t r = 0; r < data.blocks.size(); ++r) {
        const MPI_Count count = operand.counts()[r];
        const std::size_t bytes = count > 0 ? static_cast<std::size_t>(count) * size_of(r) : 0;
        arrays.counts.push_back(static_cast<MPI_Count>(bytes));
        arrays.displs.push_back(static_cast<MPI_Aint>(data.blocks[r]));
        arrays.types.push_back(MPI_BYTE);
    }
    operand.address = packed;
    if (!data.blocks.empty()) {
        operand.width = Width::kLarge;
        operand.count_array = arrays.counts.data();
        operand.displ_array = arrays.displs.data();
        operand.types = operand.types != nullptr ? arrays.types.data() : nullptr;
    } else {
        operand.count *= static_cast<MPI_Count>(datatype::size_of(operand.type));
    }
    operand.type = MPI_BYTE;
}

std::string pack(const Work& work, device::Stream& device_stream) {
    return queue_all(work.packs, pack::Direction::kToHost, "packing by a kernel", device_stream);
}

std::string unpack(const Work& work, device::Stream& device_stream) {
    return queue_all(work.unpacks, pack::Direction::kToDevice, "unpacking by a kernel", device_stream);
}

}  // namespace swy::nccl
