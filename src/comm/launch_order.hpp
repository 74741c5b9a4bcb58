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
#include <utility>
#include <vector>

#include "comm/job_messages.hpp"
#include "comm/launch_tokens.hpp"
#include "comm/state.hpp"

namespace swy::comm {

// Draws state.number where there is none yet and finds state.one_host; `all` becomes false where it is on some rank.
// Collective over the communicator. Returns MPI's code.
int agree_on_number(State& state, bool& all);

// Returns the communicator's number, by which a message names it to the other end: of an intercommunicator that of its
// merged one. 0 for one that MPI_Comm_idup has made, until its first set-up, and for one that spans jobs. Local, under
// the engine's lock.
std::int64_t number_of(State& state);

// Returns an operation's id among the ranks of the communicator of that number, which no other operation of theirs has.
// Never 0.
OperationId id_of(std::int64_t number, const Launch& launch);

class LaunchOrder {
  public:
    // Makes the communicator's launch order, and sets state.order. Collective over the communicator. Returns MPI's
    // code.
    static int make(State& state);

    // The same where it has none and may get one. Open MPI would hang if a communicator were made while MPI_Comm_idup
    // is making one of the same ranks. Where none may be made, calls that do not block are staged.
    static int make_if_missing(State& state) {
        return state.order != nullptr || state.duplicated ? MPI_SUCCESS : make(state);
    }

    LaunchOrder(std::unique_ptr<LaunchTokens> tokens, std::int64_t number)
        : tokens_(std::move(tokens)), number_(number) {}
    ~LaunchOrder();
    LaunchOrder(const LaunchOrder&) = delete;
    LaunchOrder& operator=(const LaunchOrder&) = delete;

    // The private communicator, a duplicate; and the one for the program's calls that are made after their place in the
    // program, which is an intercommunicator where theirs is one.
    MPI_Comm private_comm() const { return private_comm_; }
    MPI_Comm comm_for_calls() const { return between_ != MPI_COMM_NULL ? between_ : private_comm_; }
    void revoke() const;  // both

    // The same on all ranks of the communicator, and not the number of any other launch order that one of them has had.
    std::int64_t number() const { return number_; }

    // The communicator's operations, in the order of the program's calls, which is the same on all ranks. An operation
    // is launched, or makes its call on the private communicator, when it is the first; then it leaves.
    void enter(const void* operation) { queue_.push_back(operation); }
    bool first(const void* operation) const { return !queue_.empty() && queue_.front() == operation; }
    void leave(const void* operation);

    using Launch = comm::Launch;
    OperationId id_of(const Launch& launch) const { return comm::id_of(number_, launch); }
    // Does this operation come next, and have all ranks launched it that are to do so before this one? Receives tokens.
    bool arrived(const Launch& launch);
    void pass_token(const Launch& launch);  // this process has launched it
    void give_up(const Launch& launch);     // it will not be launched here: its token, should it arrive, is dropped

    // Returns the rank whose launch token this process still needs, or MPI_PROC_NULL if none. Receives tokens.
    int missing(const Launch& launch) { return arrived(launch) ? MPI_PROC_NULL : tokens_->before(); }

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
    void receive_token();

    State* owner_ = nullptr;
    MPI_Comm private_comm_ = MPI_COMM_NULL, between_ = MPI_COMM_NULL;
    std::unique_ptr<LaunchTokens> tokens_;
    const std::int64_t number_;
    std::deque<const void*> queue_;
    bool has_token_ = false;
    Launch token_;
    std::vector<Launch> given_up_;
};

// The GPUs of a process, which work for one NCCL communicator at a time.
class Gpus {
  public:
    static Gpus& of_process();

  private:
    friend class GpuClaim;
    const nccl::Communicator* with_ = nullptr;
    int operations_ = 0;
    int waiting_ = 0;  // claims for other communicators: later ones for `with_` do not overtake them
};

// An operation's claim to them.
class GpuClaim {
  public:
    explicit GpuClaim(Gpus& gpus = Gpus::of_process()) : gpus_(gpus) {}
    ~GpuClaim() { end(); }
    GpuClaim(const GpuClaim&) = delete;
    GpuClaim& operator=(const GpuClaim&) = delete;
    // May something be launched on `communicator` now? Once true, it stays so until end().
    bool begin(const nccl::Communicator* communicator);
    void end();

  private:
    Gpus& gpus_;
    bool has_ = false, waits_ = false;
};

}  // namespace swy::comm
