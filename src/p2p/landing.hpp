// Host memory in which MPI receives what is meant for a device: an ordinary message, or an envelope. Receive operations
// hold one each.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>

#include "device/device.hpp"

namespace swy::p2p {

// Small ones are page-locked memory of the device's pool. Large ones are pages that cost nothing until a message comes:
// nearly always only an envelope does. Some are kept for the next receives.
class Landing {
  public:
    Landing() = default;
    ~Landing();
    Landing(Landing&& other) noexcept;
    Landing(const Landing&) = delete;
    Landing& operator=(const Landing&) = delete;

    // False when there is no memory.
    bool acquire(device::Context context, std::size_t bytes);
    // Memory for MPI to receive up to `bytes` into, as one of `type`, which begins with that many bytes in their order
    // and takes a few more: a message that is too long is found by its length, not always by MPI's error. Under the
    // engine's lock, MPI's code.
    int acquire_to_receive(device::Context context, std::size_t bytes, MPI_Datatype& type);

    // How many bytes have been written: memory that is kept for later receives holds on to few such pages.
    void touched(std::size_t bytes) { touched_ = std::max(touched_, bytes); }

    std::byte* data() const { return data_; }
    bool page_locked() const { return pages_ == 0 && pinned_.page_locked(); }

    // The operation is given up, but MPI may still work on the memory for `request`: keeps both until it does not.
    // Under the engine's lock.
    static void leave(Landing memory, MPI_Request request);
    // Gives back what was left and is done with since. To be called now and then, under the engine's lock.
    static void collect_left();

    // Memory and types that are kept; before MPI's end.
    static void release_kept();

  private:
    device::Pinned pinned_;
    std::byte* data_ = nullptr;
    std::size_t pages_ = 0;    // bytes of mapped memory; 0 for pinned memory
    std::size_t touched_ = 0;  // by this one or by those that had the memory before
};

}  // namespace swy::p2p
