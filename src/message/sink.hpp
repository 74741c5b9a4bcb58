// Memory for a payload that nobody wants but that its sender must get rid of: as many bytes as asked for, of any
// number, in a few pages that lie behind all of them.
#pragma once

#include <cstddef>

namespace swy::message {

class Sink {
  public:
    explicit Sink(std::size_t bytes);
    ~Sink();
    Sink(const Sink&) = delete;
    Sink& operator=(const Sink&) = delete;

    void* data() const { return data_; }  // null where the system gives none

  private:
    void* data_ = nullptr;
    std::size_t mapped_ = 0;
};

}  // namespace swy::message
