// Waiting: every place in which Switchyard waits for something uses these functions, with MPI's progress in the loop
// and a time limit.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <string>

#include "device/device.hpp"
#include "error/loss.hpp"

namespace swy::progress {

// When waiting is given up: SWITCHYARD_TIMEOUT after construction, which never passes when that is 0, or when the
// communicator whose ranks are waited for has lost one of them or has been revoked (error/loss.hpp). A program that has
// computed outside MPI until after that time gets a quarter of it more, once: nothing that needs MPI's progress can
// have ended meanwhile.
class Deadline {
  public:
    explicit Deadline(double seconds, MPI_Comm comm = MPI_COMM_NULL);
    bool passed() const;
    std::string why() const;  // as a clause, for the error of who gives up

  private:
    bool is_late() const;
    bool is_lost() const;

    MPI_Comm comm_;
    mutable unsigned looks_ = 0;
    bool never_;
    std::chrono::steady_clock::duration more_{};
    mutable std::chrono::steady_clock::time_point looked_, end_;
    mutable bool extended_ = false;
};

// Runs one turn of MPI's progress engine; does not block. Where that cannot be called and there is no MPI_COMM_SELF to
// run it through, as in a program that uses sessions alone, it yields: nothing is agreed on there, so what is waited
// for is a copy, which needs no peer.
void progress();

// Whether there is an MPI_COMM_SELF, that is, whether the process is between MPI_Init and MPI_Finalize.
// init/lifecycle.cpp sets it.
extern std::atomic<bool> has_self;

// Makes later work on `stream` run after the program's, as SWITCHYARD_SYNC says, with MPI's progress where that waits.
device::Result wait_for_program(device::Stream& stream);

// Waits for `request`, a real MPI request. Returns false when the deadline passed first: the request then is still
// pending.
bool wait(MPI_Request& request, const Deadline& deadline);

// The same for a small message on `comm` that tells another process of what this one has launched on a GPU, with
// SWITCHYARD_TIMEOUT. Once the program has control again it may wait for its GPU outside MPI (cudaDeviceSynchronize),
// where nothing leaves that MPI has kept back, while the GPU waits for what that other process launches when it hears
// of this. That process comes later in the order of launches, so no two wait for each other here.
bool see_off(MPI_Request& request, MPI_Comm comm);

}  // namespace swy::progress
