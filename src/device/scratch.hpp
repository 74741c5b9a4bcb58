// Device memory of Switchyard's own, for routes that need a place to put intermediate results. Carriers acquire it
// before the agreement.
#pragma once

#include <cstddef>
#include <memory>

#include "device/device.hpp"

namespace swy::device {

// Given back with the object: hold it until the work that uses it is done. Up to four idle blocks are kept per context
// until MPI_Finalize, since cuMemAlloc and above all cuMemFree wait for the device, and so perhaps for a peer.
class Scratch {
  public:
    Scratch() = default;
    ~Scratch();
    Scratch(Scratch&& other) noexcept;
    Scratch& operator=(Scratch&& other) noexcept;

    static Result acquire(Context context, std::size_t bytes, Scratch& scratch);
    void* data() const { return data_; }
    explicit operator bool() const { return data_ != nullptr; }

  private:
    void give_back() noexcept;

    std::shared_ptr<Home> home_;
    void* data_ = nullptr;
    std::size_t capacity_ = 0;
    bool ordered_ = false;
    StreamHandle stream_ = nullptr;
};

// While one lives, what this thread acquires on the lane's context is had in the order of the lane's stream, and given
// back in it: the block may go as soon as the work that uses it is queued there, and the host waits for nothing.
class ScratchInOrder {
  public:
    explicit ScratchInOrder(const Lane& lane);
    ~ScratchInOrder();
    ScratchInOrder(const ScratchInOrder&) = delete;
    ScratchInOrder& operator=(const ScratchInOrder&) = delete;

  private:
    const Lane* const before_;
};

}  // namespace swy::device
