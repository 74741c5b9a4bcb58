// The order in which non-blocking collectives are launched on NCCL communicators, and the communicator on which the
// real calls of the others are made: both after their agreement, when the program may be elsewhere. The operations of
// src/coll use this, under the engine's lock.
//
// Why nothing here can deadlock. A process launches on one NCCL communicator at a time: while an operation is under way
// on one, none is launched on another. The processes of an operation launch it one after the other, in the order of
// their ranks in MPI_COMM_WORLD: each passes a launch token to the next. Say that a process is busy when it has
// launched an operation that is not finished. What it then waits for is the next process in that operation's order,
// which has a higher rank. That one is free, and launches; or it is busy with another operation, and waits for one of a
// higher rank still. The highest one that is reached waits for nobody. So something is always launched or finished,
// whatever the order in which programs start operations on different communicators. What is launched on a GPU waits for
// processes of higher ranks alone, as with the pair communicators of point-to-point (p2p/pair_comm.hpp), so a program
// may wait for its whole GPU outside MPI.
//
// Persistent operations of one communicator may be started in another order on every rank (MPI 4.0 section 6.13), and
// each rank learns in its own order which ones all have started. So the communicator's first process in that order
// decides: it launches what it finds ready, and the launch tokens, which come in the order in which they were sent, say
// to each next one what comes next. A process that has an operation's token can launch it when it is free: a token is
// sent when all ranks have agreed on that operation, and, if it stands in the program's order, on all before it.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/job_messages.hpp"
#include "comm/state.hpp"

namespace swy::comm {

// Draws a number that none of the communicator's ranks has had from here, the same on all of them; `all` becomes false
// where it is on some rank. Collective over the communicator. Returns MPI's code.
int agree_on_number(const State& state, bool& all, std::int64_t& number);

class LaunchOrder {
  public:
    // Makes the communicator's launch order, and sets state.order. Collective over the communicator. Returns MPI's
    // code.
    static int make(State& state);

    // Makes a launch order on a private communicator that the caller has made: for buffer_slots.hpp. Local.
    static std::shared_ptr<LaunchOrder> adopt(State& state, MPI_Comm private_comm);
    ~LaunchOrder();
    LaunchOrder(const LaunchOrder&) = delete;
    LaunchOrder& operator=(const LaunchOrder&) = delete;

    // The private communicator: a duplicate, for calls that are made after their place in the program.
    MPI_Comm private_comm() const { return private_comm_; }

    // The same on all ranks of the communicator, and not the number of any other launch order that one of them has had.
    std::int64_t number() const { return number_; }

    // The communicator's operations, in the order of the program's calls, which is the same on all ranks. An operation
    // is launched, or makes its call on the private communicator, when it is the first; then it leaves.
    void enter(const void* operation) { queue_.push_back(operation); }
    bool first(const void* operation) const { return !queue_.empty() && queue_.front() == operation; }
    void leave(const void* operation);
    bool empty() const { return queue_.empty(); }

    // Identifies an operation, alike on all ranks: its number among those that have been agreed on and, for a
    // persistent one, which start it is, from 1 on. No two operations have the same.
    struct Launch {
        std::uint64_t number = 0, start = 0;
        bool operator==(const Launch&) const = default;
    };
    // Returns the operation's id among the ranks, which no other operation of theirs has. Never 0.
    OperationId id_of(const Launch& launch) const;
    // Does this operation come next, and have all ranks launched it that are to do so before this one? Calls MPI_Test.
    bool arrived(const Launch& launch);
    void pass_token(const Launch& launch);  // this process has launched it
    void give_up(const Launch& launch);     // it will not be launched here: its token, should it arrive, is dropped

    // Returns the rank whose launch token this process still needs, or MPI_PROC_NULL if none. Calls MPI_Test.
    int missing(const Launch& launch) { return arrived(launch) ? MPI_PROC_NULL : before_; }

    // The operation that NCCL is being asked to launch: until that is finished NCCL takes nothing else on the
    // communicator.
    const void* launching = nullptr;

    // The agreements under way on the communicator itself, and other MPI calls there for operations. They must have
    // ended before the communicator is freed, for Open MPI does not keep it for them; all ranks have then made their
    // calls, or will before they free it too.
    int agreements = 0;
    void await_agreements() const;  // with MPI's progress; not under the lock

    State* owner() const { return owner_; }  // null once the communicator has been freed
    void owner_is_gone() { owner_ = nullptr; }

  private:
    struct Sent {
        Launch token;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    LaunchOrder() = default;
    void find_place(State& state);
    bool sent_first();
    void receive_token();
    State* owner_ = nullptr;
    MPI_Comm private_comm_ = MPI_COMM_NULL;
    int before_ = MPI_PROC_NULL, after_ = MPI_PROC_NULL;  // in the order of MPI_COMM_WORLD
    std::deque<const void*> queue_;
    std::int64_t number_ = 0;
    bool has_token_ = false;
    Launch token_;  // received, or where the next one will be
    MPI_Request next_token_ = MPI_REQUEST_NULL;
    std::deque<Sent> sent_;  // MPI may still read there
    std::vector<Launch> given_up_;
};

// A claim to this process's GPUs, which work for one NCCL communicator at a time.
class GpuClaim {
  public:
    ~GpuClaim() { end(); }
    // May something be launched on `communicator` now? Once true, it stays so until end().
    bool begin(const nccl::Communicator* communicator);
    void end();

  private:
    bool has_ = false, waits_ = false;
};

}  // namespace swy::comm
