// Point-to-point, for calls that mpi_compat's table marks as matched: src/dispatch calls dispatch(), wrappers of
// receives call received_on_host().
#pragma once

#include "call/call.hpp"

namespace swy::p2p {

// Performs the call, which Call::matching describes, and reports it. `real` is the real MPI function. Returns MPI's
// code.
int dispatch(const Call& call, Real real);

// Called after a real receive into host memory, the last operand, has returned `code` and, in `status`, an envelope's
// length; or after the program's error handler has left it by an exception. Completes the transfer when the message is
// an envelope. Returns MPI's code.
int received_on_host(const Call& call, int code, MPI_Status& status);

// Notes the communicator on which a matched probe of the program's has found a message. The receive that follows does
// not name it, and its errors are the communicator's.
void remember(MPI_Message message, MPI_Comm comm);

// The same after a real matched probe that has returned `code`; `flag` is that of a non-blocking one.
inline int found(int code, const MPI_Message* message, MPI_Comm comm, const int* flag = nullptr) {
    if (code == MPI_SUCCESS && (flag == nullptr || *flag != 0))
        remember(*message, comm);
    return code;
}

}  // namespace swy::p2p
