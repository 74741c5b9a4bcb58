// The packed form of a message's data on its device: NCCL moves it from and to scratch memory there, which kernels fill
// before, or empty after. Used by src/p2p and nccl/transfer.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "call/reason.hpp"
#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "device/scratch.hpp"
#include "pack/payload.hpp"

namespace swy::pack {

class Packed {
  public:
    // Gives the payload, which is not contiguous, memory for the first `bytes` bytes of its packed form, where it has
    // none yet: Payload::packed and Payload::data. Returns why no kernel can pack it; kNone on success. Nothing of it
    // can fail later but the launch of a kernel, so a peer may be told. Throws std::bad_alloc.
    static Reason give(Payload& payload, std::size_t bytes);

    // Gives the memory back, for a payload that is transferred another way or has been transferred.
    static void take_back(Payload& payload);

    // Queue the kernels that pack or unpack all of these bytes, in the context of the data. Return "" or the error.
    std::string pack(device::Stream& stream) const;
    std::string unpack(device::Stream& stream) const;

  private:
    std::shared_ptr<const datatype::Layout> layout_;
    std::size_t count_ = 0;
    std::uintptr_t address_ = 0;
    std::size_t bytes_ = 0;
    device::Scratch memory_;
};

}  // namespace swy::pack
