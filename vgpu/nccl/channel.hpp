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
    // Lets the peer know of what was written or consumed since the last call.
    virtual void notify() = 0;
    // True once the peer has ended without saying goodbye. Never on one host: there, as on GPUs, nobody tells.
    virtual bool broken() const = 0;
};

inline constexpr std::size_t kFrameAlignment = 8;

}  // namespace vgpu::nccl
