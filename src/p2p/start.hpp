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

// The same as start_send() of a copy of the data: the operand may be written at once.
Started start_send_of_copy(const Call& call, const Operand& operand, int dest, int tag);

// on_device(): does the operand have data in device memory? needs_operation(): does a receive into it need this process
// until it is complete?
bool on_device(const Call& call, const Operand& operand);
bool needs_operation(const Call& call, const Operand& operand);

// As the function of fastpath/message.hpp, for any type.
bool is_as_long_as_envelope(const Operand& operand);

// For request::envelope_arrived: called when a host receive below the threshold has completed in MPI with what may be
// an envelope's bytes. If it is an envelope, its sender waits: the receive gets the payload where that is as long as an
// envelope, and else the message was too large for it. Returns how many bytes that message has, or 0. Called under the
// engine's lock.
std::size_t envelope_left(const request::HostReceive& receive, const MPI_Status& status);

// Writes the status of a finished operation for the program, and raises its error through the communicator's handler.
// Returns MPI's code.
int publish_status(const progress::Operation& operation, MPI_Status* status);

}  // namespace swy::p2p
