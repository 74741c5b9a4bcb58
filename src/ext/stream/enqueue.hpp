// The enqueue calls. The wrappers call these outside every reentrancy guard: a call that is not queued on a stream is
// made as the ordinary call, by `ordinary`, which takes its own route.
#pragma once

#include <mpix_switchyard.h>

#include <functional>

#include "call/call.hpp"

namespace swy::stream {

using Ordinary = std::function<int()>;

// `call` is described as the blocking collective of the same name; `id` is the enqueue call's. Both return MPI's code,
// after the communicator's error handler has been called.
int collective(CallId id, const Call& call, const Ordinary& ordinary);
int barrier(CallId id, MPI_Comm comm, const Ordinary& ordinary);

struct MessageCall {
    CallId id;
    bool send;
    void* address;
    MPI_Count count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
};
int message(const MessageCall& call, MPI_Status* status, const Ordinary& ordinary);
int begin_message(const MessageCall& call, MPI_Request* request, const Ordinary& ordinary);

// Waits for enqueued requests. Requests of other kinds are left to `ordinary`, which is called with their index.
int wait_all(const char* name, int count, MPI_Request* requests, MPI_Status* statuses,
             const std::function<int(int)>& ordinary);

}  // namespace swy::stream
