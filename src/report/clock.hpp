// What the steady clocks of the ranks differ by: each node counts from its own start. For the trace.
#pragma once

#include <mpi.h>

#include "report/trace.hpp"

namespace swy::report::trace {

// How far rank 0's clock is ahead of this rank's, asked twice; in between the difference changes evenly.
class Clock {
  public:
    void ask(MPI_Comm comm);  // collective
    // In nanoseconds since rank 0 was asked first, by rank 0's clock.
    std::int64_t since_start(Time time) const;

  private:
    struct Answer {
        Time at;
        std::int64_t ahead = 0;  // nanoseconds
    };
    Answer first_, last_;
    std::int64_t zero_ = 0;  // rank 0's time when it was asked first
    bool asked_ = false;
};

}  // namespace swy::report::trace
