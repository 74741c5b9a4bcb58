// Locks that keep threads from separating a message's two parts. For send.cpp and receive.cpp.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace swy::message {

// A lock for each communicator. Several may share one, which only costs time: the holder waits for nothing but a sender
// that is between the two parts.
class Locks {
  public:
    std::mutex& of(MPI_Comm comm) {
        const auto address = reinterpret_cast<std::uintptr_t>(comm);
        return locks_[(address >> 6) % locks_.size()];
    }

  private:
    std::array<std::mutex, 61> locks_{};
};

}  // namespace swy::message
