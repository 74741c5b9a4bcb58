#include "pack/packed.hpp"

#include <fmt/format.h>

#include <utility>

#include "pack/kernel_pack.hpp"

namespace swy::pack {

Reason Packed::give(Payload& payload, std::size_t bytes) {
    if (payload.packed != nullptr)
        return Reason::kNone;
    // Absolute addresses may point anywhere.
    if (payload.layout->plan == nullptr || !in_one_place(payload))
        return Reason::kDerivedType;
    device::Stream stream;
    if (device::Stream::acquire(payload.where.context, stream) != 0 || !stream.has_kernels())
        return Reason::kDerivedType;
    auto packed = std::make_shared<Packed>();
    if (device::Scratch::acquire(payload.where.context, bytes, packed->memory_) != 0)
        return Reason::kNoMemory;
    packed->layout_ = payload.layout;
    packed->count_ = payload.count;
    packed->address_ = reinterpret_cast<std::uintptr_t>(payload.address);
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
