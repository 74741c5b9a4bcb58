// What is asked of a collective's operands: which ones count on this rank, whether any of them is device memory, and
// how large the message is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/call.hpp"

namespace swy::comm {
struct State;
}

namespace swy::coll {

// What of the call's operands is on a device (managed memory included).
enum class Presence : std::uint8_t {
    kNothing,  // host memory alone
    kAddress,  // a device address at which MPI does not look: no elements, or not significant on this rank. It still
               // must not reach Open MPI.
    kData,
};
// Costs one driver query for each operand in host memory, none for blocks that are known to be there. `comm` is the
// state of the call's communicator where it is at hand: then MPI need not be asked for the number of blocks.
Presence on_device(const Call& call, const comm::State* comm = nullptr);

// Does this rank pass data of a predefined type in an operand that is significant on every rank? May return false where
// only a closer look would find it.
bool has_plain_data(const Call& call);

// Does this rank pass host memory in a routed call, in which it has `presence` on devices? Operands that MPI ignores or
// that have no data do not count. Throws std::bad_alloc.
bool any_on_host(const Call& call, Presence presence);

// Is the call's communicator an intercommunicator?
bool between_groups(const Call& call);

// Is it a collective in which some ranks do not know how much the others pass: MPI_Gatherv and MPI_Scatterv,
// MPI_Alltoallv and MPI_Alltoallw, those on neighbours, and all between groups? No rank alone can tell whether it is a
// small one.
bool size_is_unknown(const Call& call);

// Has the call a root, of which `call.root` is the rank?
bool rooted(const Call& call);

// Returns the bytes of a routed collective that MPI wants equal on all ranks: the whole message of MPI_Allreduce,
// MPI_Reduce and MPI_Bcast, all blocks of MPI_Reduce_scatter and MPI_Allgatherv, one rank's block of the others. 0
// where a count is not valid (MPI reports that) and where the size is unknown.
std::size_t message_bytes(const Call& call);

// Is the message smaller than SWITCHYARD_NCCL_THRESHOLD? The answer is the same on every rank: what is compared is the
// size of all blocks together. Not for calls whose size is unknown.
bool under_threshold(const Call& call);

// Do the ranks make the call without an agreement, as each of them knows by itself? Its size tells: it has no data, or
// is a small one and nothing limits the wait for other ranks.
bool needs_no_agreement(const Call& call);

// Returns the bytes that this rank passes, for the report.
std::size_t payload_bytes(const Call& call);

}  // namespace swy::coll
