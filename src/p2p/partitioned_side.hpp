// One side of a partitioned message, from its *_init call to MPI_Request_free. partitioned.cpp has the requests of all,
// partition_messages.hpp and partitioned_staged.cpp the two ways in which the data goes.
#pragma once

#include "p2p/partitioned.hpp"

#if OMPI_MAJOR_VERSION >= 5

#include <memory>

#include "progress/operation.hpp"

namespace swy::p2p::partitioned {

class Side {
  public:
    virtual ~Side() = default;

    // All of these return MPI's code, and raise errors. They are not called under the engine's lock.
    virtual int make() = 0;
    // Starts the message. Returns the operation, which the engine steps; null with an error.
    virtual std::shared_ptr<progress::Operation> start(int& code) = 0;
    virtual int ready(int partition) = 0;
    virtual int arrived(int partition, int* flag) = 0;
};

std::shared_ptr<Side> staged(CallId call, const Arguments& arguments);

}  // namespace swy::p2p::partitioned

#endif
