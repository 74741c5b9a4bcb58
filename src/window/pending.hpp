// The one-sided calls of a window that work on host memory in place of the origin's device memory and that MPI has not
// completed at the origin. Used by src/window alone.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "progress/operation.hpp"
#include "staging/staging.hpp"

namespace swy::window {

inline constexpr int kAllTargets = -100, kNoTarget = -101;  // neither is a rank or MPI_PROC_NULL

class Pending {
  public:
    // A call, and what holds its memory: the staging of one without a request, the operation of one with a request.
    struct One {
        int target;
        std::unique_ptr<staging::Staging> staging;
        std::shared_ptr<progress::Operation> operation;
        std::uint64_t number = 0;
    };
    using Node = std::list<One>;

    // Adds the call in `one`, a list of one, that MPI has begun. Allocates nothing.
    void add(Node&& one);

    // The number of the last call that was added.
    std::uint64_t last() const;

    // Copies to the devices what MPI has written for the calls to `target` up to number `last`, and forgets them. They
    // are complete at the origin. Returns the first failure.
    staging::Failure complete(int target, std::uint64_t last);

  private:
    mutable std::mutex mutex_;
    std::list<One> calls_;
    std::uint64_t last_ = 0;
};

}  // namespace swy::window
