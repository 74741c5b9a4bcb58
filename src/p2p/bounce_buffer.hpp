// Bounce buffers: host memory in which MPI receives a message for device memory, be it an ordinary message or an
// envelope. Each receive operation holds one.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>

#include "device/device.hpp"

namespace swy::p2p {

// A small buffer is page-locked memory of the device's pool. A large one is mapped pages that cost nothing until a
// message comes, and nearly always only an envelope does. Some mappings are kept for later receives.
class BounceBuffer {
  public:
    BounceBuffer() = default;
    ~BounceBuffer();
    BounceBuffer(BounceBuffer&& other) noexcept;
    BounceBuffer(const BounceBuffer&) = delete;
    BounceBuffer& operator=(const BounceBuffer&) = delete;

    // False when there is no memory.
    bool acquire(device::Context context, std::size_t bytes);
    // Acquires memory into which MPI can receive up to `bytes` as one element of `type`. The type begins with that many
    // bytes in their order and takes a few more: a message that is too long is recognised by its length, not always by
    // MPI's error. Called under the engine's lock. Returns MPI's code.
    int acquire_to_receive(device::Context context, std::size_t bytes, MPI_Datatype& type);

    // Notes how many bytes have been written. Memory that is kept for later receives holds on to few such pages.
    void touched(std::size_t bytes) { touched_ = std::max(touched_, bytes); }

    std::byte* data() const { return data_; }
    bool page_locked() const { return pages_ == 0 && pinned_.page_locked(); }

    // Frees the memory and the datatypes that are kept. Called before MPI_Finalize.
    static void release_kept();

  private:
    device::Pinned pinned_;
    std::byte* data_ = nullptr;
    std::size_t pages_ = 0;    // bytes of mapped memory; 0 for pinned memory
    std::size_t touched_ = 0;  // by this receive or by earlier ones into the same memory that had the memory before
};

}  // namespace swy::p2p
