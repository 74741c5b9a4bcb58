#include "pack/packed.hpp"

#include <fmt/format.h>

#include <utility>

#include "pack/kernel_pack.hpp"

namespace swy::pack {

Reason Packed::give(Payload& payload, std::size_t bytes) {
    if (payload.packed != nullptr)
        return Reason::kNone;
    const Elements elements{payload.layout.get(), payload.count, reinterpret_cast<std::uintptr_t>(payload.address)};
    MemoryRanges ranges;
    MemoryRange range;
    // Absolute addresses may point anywhere.
    if (payload.layout->plan == nullptr || !in_one_place(elements, ranges, range) ||
        range.context != payload.where.context)
        return Reason::kDerivedType;
    device::Stream stream;
    if (device::Stream::acquire(range.context, stream) != 0 || !stream.has_kernels())
        return Reason::kDerivedType;
    auto packed = std::make_shared<Packed>();
    if (device::Scratch::acquire(range.context, bytes, packed->memory_) != 0)
        return Reason::kNoMemory;
    packed->layout_ = payload.layout;
    packed->count_ = elements.count;
    packed->address_ = elements.address;
    packed->bytes_ = bytes;
    payload.data = static_cast<std::byte*>(packed->memory_.data());
    payload.packed = std::move(packed);
    return Reason::kNone;
}

void Packed::take_back(Payload& payload) {
    if (payload.packed == nullptr)
        return;
    payload.packed.reset();
    payload.data = nullptr;
}

std::string Packed::pack(device::Stream& stream) const {
    const device::Result result = queue_kernel(stream, Direction::kToHost, {layout_.get(), count_, address_}, 0, bytes_,
                                               static_cast<std::byte*>(memory_.data()));
    return result == 0 ? std::string{} : fmt::format("packing by a kernel: {}", device::describe(result));
}

std::string Packed::unpack(device::Stream& stream) const {
    const device::Result result = queue_kernel(stream, Direction::kToDevice, {layout_.get(), count_, address_}, 0,
                                               bytes_, static_cast<std::byte*>(memory_.data()));
    return result == 0 ? std::string{} : fmt::format("unpacking by a kernel: {}", device::describe(result));
}

}  // namespace swy::pack
