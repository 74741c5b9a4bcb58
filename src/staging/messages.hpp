// The messages of one transfer that MPI has under way, in their order. Used by staging/pipeline.cpp alone, under
// the engine's lock.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "device/device.hpp"
#include "staging/pipeline.hpp"

namespace swy::staging {

class Messages {
  public:
    // While one chunk is copied and another one is transferred, a third can be ready on either side of both.
    static constexpr std::size_t kMost = 4;

    explicit Messages(const Route& route) : route_(route) {}

    bool full() const { return pending_ == kMost; }
    bool empty() const { return pending_ == 0; }

    // Not called when full. Returns MPI's code.
    int send(const std::byte* data, std::size_t bytes);
    int receive(std::byte* data, std::size_t bytes);

    // Tests the oldest message alone, since each test runs MPI's progress once: messages of one tag between two ranks
    // arrive in order (MPI 4.0 section 3.5). `done`: it is over, with success or without; `bytes` is how many have been
    // received then. Returns MPI's code.
    int test_oldest(bool& done, std::size_t& bytes);

    // Cancels receives: those that have not been matched yet will complete as cancelled.
    void cancel();

    // Called when the transfer is over, though MPI may not be done with `buffers`, the i-th of which has every kMost-th
    // message from the i-th on: keeps those that MPI uses until it is done. Messages without one are in memory that
    // stays. No message is pending here afterwards.
    void leave(std::span<device::Pinned> buffers = {});

  private:
    MPI_Request& next() { return requests_[(oldest_ + pending_) % kMost]; }
    int started(int code);

    Route route_;
    std::array<MPI_Request, kMost> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    std::size_t oldest_ = 0, pending_ = 0;
};

}  // namespace swy::staging
