// What this rank knows of the job's point-to-point: the secret, its own rank, and which operation a control message is
// for. Under the engine's lock; sends and receives enter themselves.
#pragma once

#include <cstdint>
#include <string>

#include "comm/state.hpp"
#include "p2p/control.hpp"
#include "p2p/envelope.hpp"

namespace swy::p2p {

class Send;
class Receive;

const Secret& secret();
int own_rank();  // in MPI_COMM_WORLD

// Numbers are given once.
std::uint64_t enter(Send* send);
std::uint64_t enter(Receive* receive);
void leave_send(std::uint64_t id);
void leave_receive(std::uint64_t slot);
Send* find_send(std::uint64_t id);

// The tag of a receive's chunks: no other transfer under way to this rank has it.
int chunk_tag(std::uint64_t slot);

// A failure that the peer must hear of, with as much of its text as a control message holds.
void tell_failed(int rank, std::uint64_t id, std::uint64_t slot, const std::string& why);

// Called by lifecycle, collective over MPI_COMM_WORLD. start(), in a job with GPUs, settles whether envelopes are used;
// where a rank's MPI cannot drive them, all messages are ordinary ones. finish() lets every rank complete what it has
// begun. MPI's code.
int start();
void finish();

}  // namespace swy::p2p
