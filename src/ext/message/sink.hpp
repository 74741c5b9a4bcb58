// Memory for a payload that nobody wants but that its sender must get rid of: an address range of any size, backed by a
// few pages that are mapped again and again.
#pragma once

#include <cstddef>

namespace swy::message {

class Sink {
  public:
    explicit Sink(std::size_t bytes);
    ~Sink();
    Sink(const Sink&) = delete;
    Sink& operator=(const Sink&) = delete;

    void* data() const { return data_; }  // null where the system provides none

  private:
    void* data_ = nullptr;
    std::size_t mapped_ = 0;
};

}  // namespace swy::message
