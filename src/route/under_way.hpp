// What several threads of a process do at once in collectives that may be launched on NCCL: launches on different
// communicators need an order among processes (comm/order.hpp), and whether they do is agreed on before anybody knows
// what the other threads will begin.
#pragma once

#include <cstdint>

namespace swy::route {

// One collective, from before its vote to its end.
//
// A blocking one that finds nothing under way in any of its processes is launched by all ranks at once, whatever comes
// meanwhile. So what begins beside it, which only another thread can do, is not launched at all: it is staged, as all
// its ranks agree. From then on this process asks for turns always, and is not alone again.
class UnderWay {
  public:
    enum class Kind : std::uint8_t { kBlocking, kBegun };
    explicit UnderWay(Kind kind);
    ~UnderWay();
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

    bool wants_turn() const { return !alone_; }
    bool must_be_staged() const { return beside_one_alone_; }

  private:
    bool alone_ = false, beside_one_alone_ = false;
};

}  // namespace swy::route
