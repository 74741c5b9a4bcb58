// An operation: something pending in this process that needs it, as a state machine that the engine steps from inside
// MPI's progress. Point-to-point transfers and non-blocking collectives are operations; whoever starts one hands it to
// the engine.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <string>

#include "call/call.hpp"
#include "call_ids.hpp"

namespace swy::progress {

// The outcome of an operation: what the program reads in its status, or the error it gets.
struct Outcome {
    int source = MPI_ANY_SOURCE;  // as in MPI's empty status (MPI 4.0 section 3.7.3), which senders' requests have
    int tag = MPI_ANY_TAG;
    std::size_t bytes = 0;
    bool cancelled = false;
    int mpi_class = MPI_SUCCESS;
    std::string text;  // of an error: the text for error::raise()
};

class Operation;

// Called once, under the engine's lock, when an operation is done: the MPI request that stands for it completes then.
class Completion {
  public:
    virtual ~Completion() = default;
    virtual void completed(Operation& operation) = 0;
};

class Operation {
  public:
    Operation(CallId call, MPI_Comm comm) : Operation(call, Owner(comm)) {}
    Operation(CallId call, const Owner& owner) : call_(call), owner_(owner) {}
    virtual ~Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    // Does what can be done now; never blocks, never raises an error. Called under the engine's lock until done().
    // Returns true when something moved.
    virtual bool step() = 0;

    // Tells whether the next steps will do no more than ask MPI about one request, until it answers. Such steps are not
    // called in every turn. The result changes only in a step.
    virtual bool only_asks() const { return false; }

    // Handles MPI_Cancel. What cannot be cancelled any more goes on as if nobody had asked (MPI 4.0 section 3.8.4).
    virtual void cancel() {}

    // Returns what it is and what it waits for, where somebody has waited for it as long as SWITCHYARD_STALL says; ""
    // where another rank says so. Called under the engine's lock.
    virtual std::string describe() const;

    bool done() const { return done_.load(std::memory_order_acquire); }
    const Outcome& outcome() const { return outcome_; }  // once done
    CallId call() const { return call_; }
    const Owner& owner() const { return owner_; }  // whose error handler is called
    MPI_Comm comm() const { return owner_.kind == Owner::Kind::kComm ? owner_.comm : MPI_COMM_NULL; }

    // Sets who is told of the completion, under the engine's lock. When the operation is done already, `completion` is
    // called at once.
    void tell(Completion* completion);

  protected:
    void finish(Outcome outcome);
    void fail(int mpi_class, std::string text);

  private:
    const CallId call_;
    const Owner owner_;
    Outcome outcome_;
    Completion* completion_ = nullptr;
    std::atomic<bool> done_{false};
};

}  // namespace swy::progress
