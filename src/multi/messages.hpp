// Messages of several buffers of a process: what is sent is MPI's message of all of them one after the other, so that
// the receiver may have another number of buffers, or be a plain receive. The doors of the extension call.
#pragma once

#include <mpi.h>

#include "call_ids.hpp"

namespace swy::multi {

struct Message {
    CallId id;  // MPIX_Send_multi
    void* const* buffers;
    int number;
    int count;  // in each
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
    MPI_Status* status;    // of MPIX_Recv_multi; as MPI has it
    MPI_Request* request;  // of calls that do not block
};

int send(const Message& message);
int receive(const Message& message);

}  // namespace swy::multi
