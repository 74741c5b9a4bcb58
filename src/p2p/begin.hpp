// Begins the send or the receive of one operand, wherever it is: the operation that does it, already with the engine.
// take.cpp makes MPI's calls of these.
#pragma once

#include <memory>

#include "p2p/send.hpp"
#include "request/handle.hpp"
#include "request/operation.hpp"
#include "route/call.hpp"

namespace swy::p2p {

struct Begun {
    std::shared_ptr<request::Operation> operation;  // null when MPI has refused, and `code` says so
    int code = MPI_SUCCESS;
};

Begun begin_send(const Call& call, const Operand& operand, int dest, int tag, Mode mode);
Begun begin_receive(const Call& call, const Operand& operand, int source, int tag);
Begun begin_receive(const Call& call, const Operand& operand, MPI_Message* message);

// The same as begin_send of a copy of the data: the operand may be written at once.
Begun begin_send_of_copy(const Call& call, const Operand& operand, int dest, int tag);

// Is data of the operand on a device; does a receive into it need this process until it is complete?
bool on_device(const Call& call, const Operand& operand);
bool needs_operation(const Call& call, const Operand& operand);

// For request::envelope_arrived: a host receive of less than the threshold has completed in MPI with what may be an
// envelope's bytes. If so the message was too large for it, and its sender waits. MPI's class of error. Under the
// engine's lock.
int envelope_left(const request::HostReceive& receive, MPI_Status& status, bool ahead);

// What the program's status says of a finished operation, and its error through the communicator's handler: MPI's code.
int settle(const request::Operation& operation, MPI_Status* status);

}  // namespace swy::p2p
