// The order in which collectives that do not block are launched on NCCL communicators, and the communicator on which
// those that NCCL does not carry are made: both after their agreement, when the program may be elsewhere. The router's
// operations use this, under the engine's lock.
//
// Why nothing here can deadlock. A process launches on one NCCL communicator at a time: while an operation is under way
// on one, none is launched on another. The processes of an operation launch it one after the other, in the order of
// their ranks in MPI_COMM_WORLD: each tells the next. Say that a process is busy when it has launched an operation that
// is not finished. What it then waits for is the next process in that operation's order, which has a higher rank. That
// one is free, and launches; or it is busy with another operation, and waits for one of a higher rank still. The
// highest one that is reached waits for nobody. So something is always launched or finished, whatever the order in
// which programs begin operations on different communicators. What is launched on a GPU waits for processes of higher
// ranks alone, as with the lanes of point-to-point (p2p/lane.hpp), so a program may wait for its whole GPU outside MPI.
//
// Persistent operations of one communicator may be started in another order on every rank (MPI 4.0 section 6.13), and
// each rank learns in its own order which ones all have started. So the communicator's first process in that order
// decides: it launches what it finds ready, and the words, which come in the order in which they were sent, say to each
// next one what comes next. Who has a word for an operation can launch it when it is free: a word is sent when all
// ranks have agreed on that operation, and, of those that stand in the program's order, on all before it.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/state.hpp"

namespace swy::comm {

class Order {
  public:
    // Collective over the communicator, which has got an NCCL communicator. MPI's code.
    static int make(State& state);

    // The same of a private communicator that the caller has made: for places.hpp. Local.
    static std::shared_ptr<Order> adopt(State& state, MPI_Comm shadow);
    static int make_shadow(const State& state, MPI_Comm* shadow);  // collective. MPI's code
    ~Order();
    Order(const Order&) = delete;
    Order& operator=(const Order&) = delete;

    // A duplicate of the communicator, for calls that are made after their place in the program.
    MPI_Comm shadow() const { return shadow_; }

    // The same on all its ranks, and of no other order that one of them has had.
    std::int64_t number() const { return number_; }

    // The communicator's operations, in the order of the program's calls, which is the same on all ranks. An operation
    // launches, or makes its call on the shadow, when it is the first; then it leaves.
    void enter(const void* operation) { queue_.push_back(operation); }
    bool first(const void* operation) const { return !queue_.empty() && queue_.front() == operation; }
    void leave(const void* operation);
    bool empty() const { return queue_.empty(); }

    // An operation's name, the same on all ranks and no other one's: its number among those that have been agreed on,
    // and of a persistent one which start it is, from 1 on.
    struct Launch {
        std::uint64_t number = 0, start = 0;
        bool operator==(const Launch&) const = default;
    };
    // Is it this operation that comes next, and have all ranks launched it that are to do so before this one? Asks MPI.
    bool arrived(const Launch& launch);
    void pass_on(const Launch& launch);  // it has been launched here
    void give_up(const Launch& launch);  // it will not be: its word, should it come, is nobody's

    // Whose word is waited for; MPI_PROC_NULL: nobody's. Asks MPI.
    int missing(const Launch& launch) { return arrived(launch) ? MPI_PROC_NULL : before_; }

    // What NCCL is being asked to launch: until it is through it takes nothing else on the communicator.
    const void* launching = nullptr;

    // Agreements under way on the communicator itself, and what else MPI does there for operations. Before it is freed
    // they must have ended, for Open MPI does not keep it for them; all ranks have then made their calls, or will
    // before they free it too.
    int agreements = 0;
    void await_agreements() const;  // with MPI's progress; not under the lock

    State* owner() const { return owner_; }  // null once the communicator has been freed
    void owner_is_gone() { owner_ = nullptr; }

  private:
    struct Sent {
        Launch word;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    Order() = default;
    void find_place(State& state);
    bool sent_first();
    void hear();
    State* owner_ = nullptr;
    MPI_Comm shadow_ = MPI_COMM_NULL;
    int before_ = MPI_PROC_NULL, after_ = MPI_PROC_NULL;  // in the order of MPI_COMM_WORLD
    std::deque<const void*> queue_;
    std::int64_t number_ = 0;
    bool heard_ = false;
    Launch word_;  // heard, or where the next one will be
    MPI_Request next_word_ = MPI_REQUEST_NULL;
    std::deque<Sent> sent_;  // MPI may still read there
    std::vector<Launch> given_up_;
};

// This process's GPUs, which work for one NCCL communicator at a time.
class Turn {
  public:
    ~Turn() { end(); }
    // May something be launched on `communicator` now? Once it was yes, until end().
    bool begin(const carrier::nccl::Communicator* communicator);
    void end();

  private:
    bool has_ = false, waits_ = false;
};

}  // namespace swy::comm
