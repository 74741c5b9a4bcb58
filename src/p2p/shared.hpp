// Transfers over the NCCL communicator that the program's communicator has for its collectives: the parent, by its id.
// Used with SWITCHYARD_P2P_COMM=shared, and with auto until a pair has a lane. lanes.cpp asks; all under the engine's
// lock but for the waiting in Collective's constructor.
//
// Operations on one NCCL communicator run in the order in which each rank launches them, so two ranks must never launch
// two operations in different orders:
// - One transfer at a time a rank. The receiver reserves itself and proposes, the sender reserves itself and answers
//   yes, or no at once when it is not free. Only when both are reserved either launches, and both are until the
//   transfer is done: what is launched pairs ranks off, and a rank that waits for its turn holds nothing back.
// - Nobody waits for another's reservation. A no sends the receiver another way (staged). Between two ranks that have
//   proposed to each other, the lower one's proposal stands: it says no, the other one yes, and that one proposes anew
//   when the first transfer is done, which needs nothing of it any more.
// - A receiver that is reserved itself waits with its next proposal only for a transfer that is launched, or for the
//   answer of the very rank that it would ask next. Both come without anything that waits for this rank.
// - Collectives are launched after an agreement of all ranks, and before a rank agrees, it lets what it has reserved be
//   answered and launched, and refuses new proposals until its collective is through (Collective). So a transfer is
//   launched by both of its ranks before the first of them votes, or by neither until the collective is launched. The
//   wait ends: who must answer or launch is a member of the communicator, on its way to the same collective, and does
//   both from inside MPI whatever it waits for, another collective's beginning included.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/state.hpp"
#include "p2p/control.hpp"
#include "p2p/envelope.hpp"
#include "p2p/payload.hpp"
#include "p2p/transfer.hpp"

namespace swy::p2p::lanes {

// The id of the parent over which this payload could travel now; 0: none.
std::uint64_t parent_for(const Payload& payload, comm::State* comm);

// Receiver. kYes: reserved, and proposed in `clear`.
enum class Proposed : std::uint8_t { kNo, kLater, kYes };
Proposed propose(const Envelope& envelope, const Payload& payload, comm::State* comm, Control& clear);
// The sender has said no, or there will be no transfer. True: it may be proposed once more.
bool give_back(const Control& clear);

// Sender.
bool reserve_parent(std::uint64_t parent, int from);

std::unique_ptr<Transfer> over_parent(const Control& clear, int peer, const Payload& payload, bool sends,
                                      std::string& why);

void peer_launched_on_parent(std::uint64_t parent, int peer);

bool collective_begins(const comm::State& comm, std::uint64_t& parent);
bool all_launched(std::uint64_t parent);
bool free_of_messages(std::uint64_t parent);
void collective_ends(const comm::State& comm, std::uint64_t parent);

void stop_shared();

}  // namespace swy::p2p::lanes
