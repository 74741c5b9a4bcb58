// Partitioned point-to-point (MPI 4.0 chapter 4) on device memory: staged, one partition at a time. Open MPI has it
// since 5.0. The wrappers of mpi_compat/partitioned.cpp call these functions.
#pragma once

#include <mpi.h>

#if OMPI_MAJOR_VERSION >= 5

#include "call/call.hpp"

namespace swy::p2p::partitioned {

// What MPI_Psend_init and MPI_Precv_init are given. The operand is one partition, the first.
struct Arguments {
    Operand partition;
    int partitions;
    int peer, tag;
    MPI_Comm comm;
    MPI_Info info;
};

bool on_device(const Arguments& arguments);

// Creates a persistent request of Switchyard's; MPI sends and receives from and to a copy in host memory. Returns MPI's
// code.
int send_init(const Arguments& arguments, MPI_Request* request);
int receive_init(const Arguments& arguments, MPI_Request* request);

// Returns false where the request is not one of these and is for MPI. `code` is MPI's.
bool ready(MPI_Request request, int partition, int& code);
bool arrived(MPI_Request request, int partition, int* flag, int& code);

}  // namespace swy::p2p::partitioned

#endif
