// Messages of a stream communicator. Those that do not block wait until the next call on the communicator that is none
// of them, and are launched together with it: one operation of NCCL's, within which no order can deadlock.
#pragma once

#include <string>

#include "stream/communicator.hpp"
#include "stream/enqueue.hpp"

namespace swy::stream {

struct Message {
    MessageCall call;
    std::shared_ptr<Communicator> comm;
    bool launched = false;

    std::size_t bytes() const;
    bool with_nobody() const { return call.peer == MPI_PROC_NULL; }
};

// Under the communicator's mutex. "" or what went wrong: the others then are told. Receives of the rank's own messages
// for which there is none yet go on waiting.
std::string launch_pending(Communicator& comm);

}  // namespace swy::stream
