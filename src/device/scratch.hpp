// Device memory of Switchyard's own, for intermediate results. It is acquired before the agreement.
#pragma once

#include <cstddef>
#include <memory>

#include "device/device.hpp"

namespace swy::device {

// Returned to the pool with the object: keep it until the work that uses it is done. Up to four idle blocks per context
// are kept until MPI_Finalize, since cuMemAlloc and above all cuMemFree wait for the device, and so perhaps for a peer.
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

    std::shared_ptr<ContextPool> pool_;
    void* data_ = nullptr;
    std::size_t capacity_ = 0;
    bool ordered_ = false;
    StreamHandle stream_ = nullptr;
};

// While an object of this class exists, the scratch memory that this thread acquires in the stream's context is
// allocated and freed in the stream's order: a block may be released as soon as the work that uses it is queued there,
// and the host waits for nothing.
class ScratchInOrder {
  public:
    explicit ScratchInOrder(const Stream& stream);
    ~ScratchInOrder();
    ScratchInOrder(const ScratchInOrder&) = delete;
    ScratchInOrder& operator=(const ScratchInOrder&) = delete;

  private:
    const Stream* const before_;
};

}  // namespace swy::device
