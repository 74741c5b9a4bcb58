// Messages of a stream communicator. Non-blocking ones wait for the next other call on the communicator and are
// launched together with it: one NCCL group, within which no order can deadlock.
#pragma once

#include <string>

#include "ext/stream/communicator.hpp"
#include "ext/stream/enqueue.hpp"

namespace swy::stream {

struct Message {
    MessageCall call;
    std::shared_ptr<Communicator> comm;
    bool captured = false;  // begun while the stream was being captured
    bool launched = false;

    std::size_t bytes() const;
    bool with_nobody() const { return call.peer == MPI_PROC_NULL; }
};

// Launches what is pending; called under the communicator's mutex. Returns "" or the error, of which the other ranks
// are then told. Receives of the rank's own messages that have not been sent yet stay pending.
std::string launch_pending(Communicator& comm);

}  // namespace swy::stream
