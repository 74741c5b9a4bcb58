// The differences between the steady clocks of the ranks, each of which counts from its own node's start. For the
// trace.
#pragma once

#include <mpi.h>

#include "report/trace.hpp"

namespace swy::report::trace {

// How far rank 0's clock is ahead of this rank's, measured twice; in between, the difference is interpolated.
class Clock {
  public:
    void ask(MPI_Comm comm);  // collective
    // A time of this rank in nanoseconds since rank 0's first measurement, by rank 0's clock.
    std::int64_t since_start(Time time) const;

  private:
    struct Answer {
        Time at;
        std::int64_t ahead = 0;  // nanoseconds
    };
    Answer first_, last_;
    std::int64_t zero_ = 0;  // rank 0's time at its first measurement
    bool asked_ = false;
};

}  // namespace swy::report::trace
