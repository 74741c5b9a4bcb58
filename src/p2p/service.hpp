// What this rank knows of the job's point-to-point: the secret, its own rank, and which operation a control message is
// for. Sends and receives register themselves. All of this runs under the engine's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "call/envelope.hpp"
#include "comm/state.hpp"
#include "p2p/control.hpp"
#include "staging/pipeline.hpp"

namespace swy::p2p {

class Send;
class Receive;

const call::Secret& secret();
int own_rank();  // in MPI_COMM_WORLD

// Registers an operation and returns its number. A number is used once.
std::uint64_t enter(Send* send);
std::uint64_t enter(Receive* receive);
void leave_send(std::uint64_t id);
void leave_receive(std::uint64_t slot);
Send* find_send(std::uint64_t id);

// take_payload() returns, once, the payload of a synchronous host message that its envelope stands for. The payload is
// sent ahead of the envelope, on another communicator. take_payload() returns nothing when it has not come yet;
// await_payload() waits for it, and needs nothing of the program at the other end.
std::optional<call::EnvelopeBytes> take_payload(const call::Envelope& envelope);
call::EnvelopeBytes await_payload(const call::Envelope& envelope);

// The way of the chunks of the receive `slot` between this rank and `peer`, by tags that no other transfer to the
// receiver that is not complete has.
staging::Route chunk_route(int peer, std::uint64_t slot);

// Tells the peer of a failure, with as much of its text as a control message holds.
void tell_failed(int rank, std::uint64_t id, std::uint64_t slot, const std::string& why);

// init/lifecycle.cpp calls both; they are collective over MPI_COMM_WORLD. start(), in a job with GPUs, agrees on
// whether envelopes are used: where a rank's MPI cannot drive them, all messages are ordinary ones. finish() lets every
// rank of `ranks`, all or those that are left, complete what it has started. start() returns MPI's code.
int start();
void finish(MPI_Comm ranks);

// Ends the messages from and to failed ranks and on revoked communicators (comm/losses.hpp).
void lose();

// Why no message between this rank and `rank` of the communicator goes on; "" where nothing is lost.
std::string what_is_lost(MPI_Comm comm, int world_rank, int rank);

}  // namespace swy::p2p
