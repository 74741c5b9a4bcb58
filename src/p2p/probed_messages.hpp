// Probed messages: a probe has taken them from MPI to see whether they are envelopes. They are kept, in the order in
// which they were sent, for the receives that follow. All of this runs under the engine's lock.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>

#include "p2p/receive.hpp"

namespace swy::p2p {

// The first probed message of the communicator that a receive for (source, tag) matches; claim_probed() removes it.
const ProbedMessage* find_probed(MPI_Comm comm, int source, int tag);
std::optional<ProbedMessage> claim_probed(MPI_Comm comm, int source, int tag);

// Returns the communicator on which a matched probe has found the message; MPI_COMM_NULL when no wrapper has seen that
// probe, or when the communicator is gone. Not called under the lock.
MPI_Comm found_on(MPI_Message message);

// Called when a probe has found a message as long as an envelope from `source` with `tag`: takes all messages from that
// source, in their order, until it has that one (MPI 4.0 section 3.5: messages do not overtake). Returns MPI's code.
int probe_through(MPI_Comm comm, int source, int tag);

// Receives a matched message when it is as long as an envelope, and describes it in `taken`. Returns MPI's code.
int open(MPI_Message& message, const MPI_Status& status, ProbedMessage& taken);

// MPI_Message handles for messages whose contents are here already. give() creates one for the program; claim(), when
// the handle is one of these, ends it and returns the contents.
int give(ProbedMessage taken, MPI_Message* message);
std::optional<ProbedMessage> claim(MPI_Message* message);
bool is_given(MPI_Message message);

// Tells whether a probe has taken the envelope of that transfer from MPI and no receive has claimed it yet.
bool is_probed(int sender, std::uint64_t id);

void forget_probed(MPI_Comm comm);  // when the communicator is freed
void forget_probed();               // all of them

}  // namespace swy::p2p
