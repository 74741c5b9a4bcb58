// How launch tokens travel: each process of a communicator gets them from the one before it, in the order of their
// ranks in MPI_COMM_WORLD, and sends them to the next. For launch_order.hpp, under the engine's lock.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "comm/state.hpp"

namespace swy::comm {

// Identifies an operation, alike on all ranks: its number among those that have been agreed on and, for a persistent
// one, which start it is, from 1 on. No two operations of a communicator have the same. It is what a token says.
struct Launch {
    std::uint64_t number = 0, start = 0;
    bool operator==(const Launch&) const = default;
};

class LaunchTokens {
  public:
    virtual ~LaunchTokens() = default;
    // The rank of the process before this one; MPI_PROC_NULL where this one is the first, and decides.
    virtual int before() const = 0;
    // Takes the next token that has come, in the order in which they were sent. Does not block.
    virtual bool receive(Launch& token) = 0;
    // To the next process, if there is one. It has left when this returns: the program may wait for its GPU next.
    virtual void send(const Launch& token) = 0;
};

// By MPI, on the private communicator of `state`'s ranks; their ranks are the same there.
class MessageTokens final : public LaunchTokens {
  public:
    MessageTokens(State& state, MPI_Comm private_comm);
    ~MessageTokens() override;
    MessageTokens(const MessageTokens&) = delete;
    MessageTokens& operator=(const MessageTokens&) = delete;

    int before() const override { return before_; }
    bool receive(Launch& token) override;  // calls MPI_Test
    void send(const Launch& token) override;

  private:
    const MPI_Comm private_comm_;
    int before_ = MPI_PROC_NULL, after_ = MPI_PROC_NULL;
    Launch next_;  // where the next one will be
    MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace swy::comm
