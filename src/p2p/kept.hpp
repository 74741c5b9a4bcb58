// Messages that a probe has taken from MPI to see whether they are envelopes: kept, in the order they were sent, for
// the receives that follow. Under the engine's lock.
#pragma once

#include <mpi.h>

#include <optional>

#include "p2p/receive.hpp"

namespace swy::p2p {

// The first kept message of the communicator that a receive for (source, tag) matches: looked at, or taken out.
const Taken* find_kept(MPI_Comm comm, int source, int tag);
std::optional<Taken> take_kept(MPI_Comm comm, int source, int tag);

// The communicator on which a matched probe has found the message; MPI_COMM_NULL when nobody has seen that, or when it
// is gone. Not under the lock.
MPI_Comm found_on(MPI_Message message);

// A probe has met a message as long as an envelope from `source` with `tag`: takes all messages from that source, in
// their order, until it has that one (MPI 4.0 section 3.5: messages do not overtake). MPI's code.
int keep_through(MPI_Comm comm, int source, int tag);

// What a matched message turns out to be once it is received, when it is as long as an envelope.
int open(MPI_Message& message, const MPI_Status& status, Taken& taken);

// Handles that MPI_Mprobe gave the program for messages whose contents are here already. give() makes one; claim() ends
// it, when it is one, and gives the contents.
int give(Taken taken, MPI_Message* message);
std::optional<Taken> claim(MPI_Message* message);

void forget_kept(MPI_Comm comm);  // the communicator goes
void forget_kept();               // all of them

}  // namespace swy::p2p
