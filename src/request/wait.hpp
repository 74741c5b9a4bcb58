// Waiting: every place in which Switchyard waits for something waits here, with MPI's progress in the loop and a time
// limit.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>

namespace swy::request {

// A point in time after which waiting is given up: SWITCHYARD_TIMEOUT. Never, when that is 0.
class Deadline {
  public:
    explicit Deadline(double seconds);
    bool passed() const;

  private:
    std::chrono::steady_clock::time_point end_;
    bool never_;
};

// One step of MPI's progress engine; does not block. Where that cannot be called and there is no MPI_COMM_SELF to ask
// through, as in a program of sessions alone, it yields: nothing is agreed on there, so what is waited for is a copy,
// which needs no peer.
void progress();

// Is there an MPI_COMM_SELF, that is, are we between MPI_Init and MPI_Finalize? Set by lifecycle.
extern std::atomic<bool> has_self;

// Completes `request`, which is a real MPI request. False when the deadline passed first: the request then is still
// pending.
bool wait(MPI_Request& request, const Deadline& deadline);

}  // namespace swy::request
