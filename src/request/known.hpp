// What stands behind a request of ours. Used by src/request alone.
#pragma once

#include <mpi.h>

#include <memory>

#include "request/operation.hpp"

namespace swy::request {

class Handle : public Completion {
  public:
    // The operation that the request stands for; null for an inactive persistent one.
    const std::shared_ptr<Operation>& operation() const { return operation_; }

    virtual bool persistent() const = 0;

    // Begins a persistent one, whose handle MPI may replace. MPI's code; an error has been raised.
    virtual int start(MPI_Request& request) = 0;

    // MPI_Request_free: the operation goes on, and nobody asks any more what became of it.
    virtual int free(MPI_Request& request) = 0;

    // The program has completed it.
    void ended() {
        if (persistent())
            operation_.reset();
    }

  protected:
    std::shared_ptr<Operation> operation_;
};

// What the program's status must say.
void show(const Outcome& outcome, MPI_Status& status);

// The failure of an operation whose request has been freed: there is no call that could return it.
void say_unasked(const Operation& operation);

}  // namespace swy::request
