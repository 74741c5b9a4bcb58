// Host memory that stands for a window's device memory, or for some that is attached to it. In the terms of MPI's
// separate memory model (MPI 4.0 section 12.4): the device memory is the private copy, which the program reads and
// writes; the mirror is the public copy, which MPI reads and writes. Used by src/window alone.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "pack/copies.hpp"
#include "pack/pieces.hpp"
#include "staging/host_mirror.hpp"
#include "staging/staging.hpp"

namespace swy::window {

class Mirror {
  public:
    Mirror(void* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
    Mirror(const Mirror&) = delete;
    Mirror& operator=(const Mirror&) = delete;

    void* base() const { return base_; }       // on the device
    void* address() const { return public_; }  // of the mirror, once prepared
    std::size_t bytes() const { return bytes_; }

    // Acquires the host memory. Throws std::bad_alloc.
    staging::Failure prepare();

    // Each of these works on several mirrors of a window at once, and waits once for the copies of all. A failure is
    // one of all of them, and of all later calls for any: what is on either side then is not known.
    using All = std::span<const std::shared_ptr<Mirror>>;

    // Copies the device memory to the mirrors, when the window is made or the memory attached.
    static staging::Failure fill(All all);

    // Brings what the program has changed on the device to the mirrors: nothing else there is written, for others may
    // write there at the same time.
    static staging::Failure publish(All all);

    // Brings what others have changed in the mirrors to the device; nothing else is written there either.
    static staging::Failure update(All all);

  private:
    // Adjacent bytes of a mirror.
    struct Part {
        Mirror* mirror;
        std::size_t from, bytes;
    };

    template <typename Work>
    static staging::Failure on(All all, Work work);
    static device::Result download(std::span<const Part> parts, const staging::Memory& seen);
    void compare(const Part& part, const std::byte* seen);
    device::Result upload(pack::Copies& copies);
    device::Result copy(pack::Copies& copies, pack::Direction direction, std::size_t from, std::size_t bytes,
                        const std::byte* host, bool pageable);

    void* const base_;
    const std::size_t bytes_;
    std::byte* public_ = nullptr;
    staging::Memory mirror_;    // what public_ lies in
    staging::Memory snapshot_;  // what both sides had when they were last brought together
    pack::MemoryRanges places_;
    std::mutex mutex_;  // of all below, and of the copies
    staging::Failure failure_;
};

}  // namespace swy::window
