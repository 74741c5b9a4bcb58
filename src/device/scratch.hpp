// Device memory of Switchyard's own, for routes that need a place to put intermediate results. Carriers acquire it
// before the agreement.
#pragma once

#include <cstddef>

#include "device/device.hpp"

namespace swy::device {

// Freed with the object: hold it until the work that uses it is done. Allocations are cached per context (the largest
// is kept), since cuMemAlloc waits for the device.
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
    void* data_ = nullptr;
    std::size_t size_ = 0;
    Context context_ = nullptr;
};

}  // namespace swy::device
