// Starts the send or the receive of one operand, in host or device memory: returns the operation, which the engine
// already steps. dispatch.cpp makes MPI's calls of these.
#pragma once

#include <memory>

#include "call/call.hpp"
#include "p2p/send.hpp"
#include "progress/operation.hpp"
#include "request/handle.hpp"

namespace swy::p2p {

struct Started {
    std::shared_ptr<progress::Operation> operation;  // null when MPI returned the error `code`
    int code = MPI_SUCCESS;
};

Started start_send(const Call& call, const Operand& operand, int dest, int tag, Mode mode);
Started start_receive(const Call& call, const Operand& operand, int source, int tag);
Started start_receive(const Call& call, const Operand& operand, MPI_Message* message);
// The same, under the engine's lock, on a private communicator: the program probes for no message there.
Started start_receive_under_lock(const Call& call, const Operand& operand, int source, int tag);

// The same as start_send() of a copy of the data: the operand may be written at once.
Started start_send_of_copy(const Call& call, const Operand& operand, int dest, int tag);

// on_device(): does the operand have data in device memory? needs_operation(): does a receive into it need this process
// until it is complete?
bool on_device(const Call& call, const Operand& operand);
bool needs_operation(const Call& call, const Operand& operand);

// As the function of fastpath/message.hpp, for any type.
bool is_as_long_as_envelope(const Operand& operand);

// Writes the status of a finished operation for the program, and raises its error through the communicator's handler.
// Returns MPI's code.
int publish_status(const progress::Operation& operation, MPI_Status* status);

}  // namespace swy::p2p
