// Messages that NCCL does not carry between two processes of a host, from device memory to device memory: the sender
// writes them into a block of device memory of the receiver's process, which it has mapped (device/mapped.hpp), and the
// receiver copies them out. So ranks that share a GPU need no host memory. The receiver decides, as for all transports
// of messages. Under the engine's lock.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "call/envelope.hpp"
#include "device/mapped.hpp"
#include "p2p/control.hpp"
#include "pack/payload.hpp"

namespace swy::p2p::mapped {

// Sender, when it writes an envelope: fills in `maps`, and the host.
void describe(const pack::Payload& payload, call::Envelope& envelope);

// Receiver: can the message be sent so, if there is a block for it?
bool possible(const call::Envelope& envelope, const pack::Payload& payload);

// What a message has while it uses a block: others of the same sender can wait for that one.
using Claim = std::shared_ptr<void>;

// Receiver, with a clear to send that says kStaged: makes it kMapped where both ends can do that. `block` is where the
// sender shall write. Returns false where all blocks are in use, but one of them by a message of the same sender: that
// one ends whenever this rank and the sender are in MPI, which a staged message would need, too. Then it is to be
// called again.
bool choose(const call::Envelope& envelope, const pack::Payload& payload, Control& clear, device::Mappable& block,
            Claim& claim);

// Receiver, when that rank could not map a block of this process: its messages are staged from then on.
void refused(int rank);

// Sender, with kMapped: the block in this process's address space; nullptr where it cannot be mapped.
std::byte* block_in(const Control& clear, const pack::Payload& payload);

// Collective over `ranks`, all or those that are left, when no message is under way: unmaps the blocks of other
// processes before any rank frees its own.
void finish(MPI_Comm ranks);

}  // namespace swy::p2p::mapped
