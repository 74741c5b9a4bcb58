// Transfers over the NCCL communicator that the program's communicator has for its collectives, called the parent and
// known by its id. Used with SWITCHYARD_P2P_COMM=shared, and with auto until a pair of ranks has a pair communicator.
// pair_comms.cpp calls these functions, under the engine's lock but for the waiting in Collective's constructor.
//
// Operations on one NCCL communicator run in the order in which each rank launches them, so two ranks must never launch
// two operations in different orders:
// - A rank has one transfer at a time. The receiver reserves itself and proposes, the sender reserves itself and
//   answers yes, or no at once when it is not free. Only when both are reserved either launches, and both remain so
//   until the transfer is done: what is launched pairs ranks off, and a rank that waits to launch holds nothing back.
// - Nobody waits for another's reservation. After a no the receiver uses another transport (staged). Between two ranks
//   that have proposed to each other, the lower one's proposal stands: it says no, the other one yes, and that one
//   proposes anew when the first transfer is done, which needs nothing of it any more.
// - A receiver that is reserved itself waits with its next proposal only for a transfer that is launched, or for the
//   answer of the very rank that it would ask next. Both come without anything that waits for this rank.
// - Collectives are launched after an agreement of all ranks, and before a rank agrees, it lets what it has reserved be
//   answered and launched, and refuses new proposals until its collective is done (Collective). So a transfer is
//   launched by both of its ranks before the first of them votes, or by neither until the collective is launched. The
//   wait ends: who must answer or launch is a member of the communicator, on its way to the same collective, and does
//   both from inside MPI whatever it waits for, another collective's start included.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "call/envelope.hpp"
#include "comm/state.hpp"
#include "p2p/control.hpp"
#include "pack/payload.hpp"
#include "staging/transfer.hpp"

namespace swy::p2p::pair_comms {

// Returns the id of the parent over which this payload could be transferred now, or 0 if there is none.
std::uint64_t parent_for(const pack::Payload& payload, comm::State* comm);

// Receiver: proposes a transfer over the parent. kYes: reserved, and proposed in `clear`; kLater: try again in a later
// step; kNo: another transport is to be used.
enum class Proposed : std::uint8_t { kNo, kLater, kYes };
Proposed propose(const call::Envelope& envelope, const pack::Payload& payload, comm::State* comm, Control& clear);
// Receiver: ends the reservation, because the sender has said no or there will be no transfer. Returns true when the
// transfer may be proposed once more.
bool give_back(const Control& clear);

// Sender: reserves the parent. Returns false when it is not free.
bool reserve_parent(std::uint64_t parent, int from);

std::unique_ptr<staging::Transfer> over_parent(const Control& clear, int peer, const pack::Payload& payload, bool sends,
                                               std::string& why);

void peer_launched_on_parent(std::uint64_t parent, int peer);

bool collective_begins(const comm::State& comm, std::uint64_t& parent);
bool all_launched(std::uint64_t parent);
// Has this rank proposed a transfer there to a lower rank of MPI_COMM_WORLD that has not answered?
bool lower_rank_has_not_answered(std::uint64_t parent);
void collective_ends(const comm::State& comm, std::uint64_t parent);

void stop_shared();

}  // namespace swy::p2p::pair_comms
