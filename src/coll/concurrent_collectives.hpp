// Counts the collectives that the threads of this process have under way and that may be launched on NCCL. Launches on
// different communicators need an order among processes (comm/launch_order.hpp), and the ranks agree on whether they
// use it before any of them knows what its other threads will start.
#pragma once

#include <cstdint>

namespace swy::coll {

// One collective, from before its vote to its end.
//
// A blocking collective that finds none under way in any of its processes is launched by all ranks at once, whatever
// starts meanwhile. So a collective that starts beside it, which only another thread can do, is not launched on NCCL at
// all: it is staged, as all its ranks agree. From then on all collectives of this process ask for the launch order, and
// none counts as alone again.
class ConcurrentCollectives {
  public:
    enum class Kind : std::uint8_t { kBlocking, kNonblocking };
    explicit ConcurrentCollectives(Kind kind);
    ~ConcurrentCollectives();
    ConcurrentCollectives(const ConcurrentCollectives&) = delete;
    ConcurrentCollectives& operator=(const ConcurrentCollectives&) = delete;

    bool wants_turn() const { return !alone_; }
    bool must_be_staged() const { return beside_one_alone_; }

  private:
    bool alone_ = false, beside_one_alone_ = false;
};

}  // namespace swy::coll
