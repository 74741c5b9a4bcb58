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
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>

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

    // Have all ranks launched the first operation that are to do so before this one? Asks MPI. `number` is the
    // operation's among those that have been agreed on, the same on all ranks: one that fails on some of them leaves no
    // word that another would take for its own.
    bool arrived(std::uint64_t number);
    void pass_on(std::uint64_t number);  // it has been launched here
    void give_up();                      // the first operation will not be

    // Agreements under way on the communicator itself. Before it is freed they must have ended, for Open MPI does not
    // keep it for them; all ranks have then made their calls, or will before they free it too.
    int agreements = 0;
    void await_agreements() const;  // with MPI's progress; not under the lock

    // One of them is given up, and MPI still works on it: `comm`, the communicator itself, lives on when it is freed.
    void leave_agreement(MPI_Comm comm);

  private:
    Order() = default;
    void find_place(State& state);
    MPI_Comm shadow_ = MPI_COMM_NULL;
    int before_ = MPI_PROC_NULL, after_ = MPI_PROC_NULL;  // in the order of MPI_COMM_WORLD
    std::deque<const void*> queue_;
    std::int64_t number_ = 0;
    bool arrived_ = false;
    MPI_Request word_ = MPI_REQUEST_NULL;
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
