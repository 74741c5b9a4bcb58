// The object behind a request of Switchyard's. Only src/request uses it.
#pragma once

#include <mpi.h>

#include <memory>

#include "progress/operation.hpp"

namespace swy::request {

class Handle : public progress::Completion {
  public:
    // The operation that the request stands for; null for an inactive persistent one.
    const std::shared_ptr<progress::Operation>& operation() const { return operation_; }

    virtual bool persistent() const = 0;

    // Starts a persistent request, whose handle MPI may replace. Returns MPI's code; an error has been raised.
    virtual int start(MPI_Request& request) = 0;

    // Handles MPI_Request_free: the operation goes on, and no call returns its outcome any more.
    virtual int free(MPI_Request& request) = 0;

    // Called when the program has completed the request.
    void ended() {
        if (persistent())
            operation_.reset();
    }

  protected:
    std::shared_ptr<progress::Operation> operation_;
};

// Writes the outcome to the program's status.
void show(const progress::Outcome& outcome, MPI_Status& status);

// Prints the failure of an operation whose request has been freed: there is no call that could return it.
void say_unasked(const progress::Operation& operation);

}  // namespace swy::request
