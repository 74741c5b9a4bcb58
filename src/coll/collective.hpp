// The base class of collectives that the progress engine steps: non-blocking ones, and blocking ones that wait in the
// same way. It turns std::bad_alloc in a step into an error, and makes errors that name the call, the rank and the
// communicator. For the operations of src/coll and src/ext/multi.
#pragma once

#include <string>

#include "call/call.hpp"
#include "comm/state.hpp"
#include "progress/operation.hpp"
#include "report/op_record.hpp"

namespace swy::coll {

// Returns an error's text. `comm` is null where the program has freed the communicator.
std::string in_call(CallId call, const comm::State* comm, int rank, int size, const std::string& why);

class Collective : public progress::Operation {
  public:
    bool step() final;
    std::string describe() const final;
    const std::string& why() const { return why_; }  // why it failed, once done; "" on success

  protected:
    Collective(CallId call, const Owner& owner, int rank, int size)
        : Operation(call, owner), rank_(rank), size_(size) {}

    // One step of the operation. May throw std::bad_alloc.
    virtual bool advance() = 0;
    // Releases what other operations may need, since the program may keep the request for long, and finishes the
    // operation.
    virtual void end(progress::Outcome outcome) = 0;
    // Called on a failure, before end(): tells whatever must know of it, such as other ranks and the launch order.
    virtual void failing(const std::string&) {}
    virtual const comm::State* comm_state() const = 0;  // null once the communicator has been freed

    // What it waits for, as a clause.
    virtual std::string waits_for() const { return "it has not ended"; }

    void fail_here(int mpi_class, const std::string& why);

    const int rank_, size_;
    report::OpRecord record_{call(), owner()};

  private:
    std::string why_;
};

}  // namespace swy::coll
