// Partitioned point-to-point (MPI 4.0 chapter 4), which Open MPI has since 5.0. The wrappers of
// mpi_compat/partitioned.cpp call these functions.
//
// In a job with GPUs every partition is a message of its own: it leaves as soon as MPI_Pready has been called for it,
// and its two ends agree on its transport as on that of any other message. These messages travel on the private
// communicator that each communicator has. No rank can tell whether the other side's buffer is on a device, so host
// memory goes the same way. A communicator without a private one (intercommunicators, those of MPI_Comm_idup, those
// that span jobs) has device memory staged around MPI's own partitioned message.
#pragma once

#include <mpi.h>

#if OMPI_MAJOR_VERSION >= 5

#include "call/call.hpp"

namespace swy::p2p {
struct Control;
}

namespace swy::p2p::partitioned {

// What MPI_Psend_init and MPI_Precv_init are given. The operand is one partition, the first.
struct Arguments {
    Operand partition;
    int partitions;
    int peer, tag;
    MPI_Comm comm;
    MPI_Info info;
};

// Does the message go by messages of its partitions? Both sides get the same answer. False, too, for arguments that MPI
// rejects.
bool goes_by_messages(const Arguments& arguments);

bool on_device(const Arguments& arguments);

// Creates a persistent request of Switchyard's, for a message that goes by messages of its partitions or is in device
// memory. Returns MPI's code.
int send_init(const Arguments& arguments, MPI_Request* request);
int receive_init(const Arguments& arguments, MPI_Request* request);

// Returns false where the request is not one of these and is for MPI. `code` is MPI's.
bool ready(MPI_Request request, int partition, int& code);
bool arrived(MPI_Request request, int partition, int* flag, int& code);

// Handles a control message of the kind kPartitions, under the engine's lock.
void announced(const Control& control);

}  // namespace swy::p2p::partitioned

#endif
