// A stream of bytes in both directions between two ranks: over shared memory within a host, over TCP between hosts.
// Links write and read frames on it; nothing else does. No call blocks.
#pragma once

#include <cstddef>
#include <span>

namespace vgpu::nccl {

class Channel {
  public:
    Channel() = default;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    virtual ~Channel() = default;

    // Takes as many of the bytes as there is room for; returns how many.
    virtual std::size_t write(const void* data, std::size_t bytes) = 0;
    // Bytes that have arrived, from the oldest on; not always all of them, and empty when there are none.
    virtual std::span<const std::byte> peek() = 0;
    virtual void consume(std::size_t bytes) = 0;
    // Notifies the peer of bytes written or consumed since the last call.
    virtual void notify() = 0;
    // Returns whether the peer has ended without a goodbye frame. Always false on one host: there the loss of a peer is
    // not
    // noticed, as on GPUs.
    virtual bool broken() const = 0;
};

inline constexpr std::size_t kFrameAlignment = 8;

}  // namespace vgpu::nccl
