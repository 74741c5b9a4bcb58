// Device memory of Switchyard's own, for intermediate results. It is acquired before the agreement.
#pragma once

#include <cstddef>
#include <memory>

#include "device/device.hpp"

namespace swy::device {

// Keep the object until the work that uses it is done. Up to four idle blocks per context are kept until MPI_Finalize,
// since cuMemAlloc and above all cuMemFree wait for the device, and so perhaps for a peer. What is larger than 64 MiB
// is allocated in stream order where the device can do so, waits for nothing, and is the program's again afterwards:
// the driver keeps the memory until the program next synchronises with the device.
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
    Result acquire_large(Context context, std::size_t bytes);
    void give_back() noexcept;

    std::shared_ptr<ContextPool> pool_;
    void* data_ = nullptr;
    std::size_t capacity_ = 0;
    bool ordered_ = false;
    StreamHandle stream_ = nullptr;
    Stream own_;  // of a large block, which is allocated and freed there
};

// While an object of this class exists, the scratch memory that this thread acquires in the stream's context is
// allocated and freed in the stream's order: a block may be released as soon as the work that uses it is queued there,
// and the host waits for nothing.
class ScratchInOrder {
  public:
    explicit ScratchInOrder(Stream& stream);
    ~ScratchInOrder();
    ScratchInOrder(const ScratchInOrder&) = delete;
    ScratchInOrder& operator=(const ScratchInOrder&) = delete;

  private:
    Stream* const before_;
};

}  // namespace swy::device
