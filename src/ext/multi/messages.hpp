// Messages of several buffers of a process: what is sent is one MPI message of all buffers one after the other, so that
// the receiver may have another number of buffers, or make an ordinary MPI receive. The extension's wrappers call
// these.
#pragma once

#include <mpi.h>

#include "call_ids.hpp"

namespace swy::multi {

struct Message {
    CallId id;  // MPIX_Send_multi
    void* const* buffers;
    int number;
    int count;  // elements in each buffer
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
    MPI_Status* status;    // of MPIX_Recv_multi; as in MPI_Recv
    MPI_Request* request;  // of non-blocking calls
};

int send(const Message& message);
int receive(const Message& message);

}  // namespace swy::multi
