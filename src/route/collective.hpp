// What every collective is to the engine that does not block, or waits as if it did not: steps that may find no memory,
// and errors that name the call, the rank and the communicator. For the router's operations and src/multi.
#pragma once

#include <string>

#include "comm/state.hpp"
#include "p2p/ledger.hpp"
#include "request/operation.hpp"
#include "route/call.hpp"

namespace swy::route {

// An error's text. `comm` is null where the program has freed the communicator.
std::string in_call(CallId call, const comm::State* comm, int rank, int size, const std::string& why);

class Collective : public request::Operation {
  public:
    bool step() final;
    const std::string& why() const { return why_; }  // it failed, once done

  protected:
    Collective(CallId call, const Owner& owner, int rank, int size)
        : Operation(call, owner), rank_(rank), size_(size) {}

    // A step. May throw std::bad_alloc.
    virtual bool advance() = 0;
    // Gives back what others may want, however long the program keeps the request, and finishes.
    virtual void end(request::Outcome outcome) = 0;
    // What the other ranks and what is under way must know of a failure before the end.
    virtual void failing(const std::string&) {}
    virtual const comm::State* comm_state() const = 0;  // null once the communicator has been freed

    void fail_here(int mpi_class, const std::string& why);

    const int rank_, size_;
    p2p::Ledger ledger_;

  private:
    std::string why_;
};

}  // namespace swy::route
