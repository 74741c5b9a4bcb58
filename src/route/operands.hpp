// What the router asks of operands: which count on this rank, is any of them device memory, and how big is the message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "route/call.hpp"

namespace swy::route {

// What of the call's operands is on a device (managed memory included).
enum class Presence : std::uint8_t {
    kNothing,  // host memory alone
    kAddress,  // an address that MPI will not look at: no elements, or not significant on this rank. It still must not
               // reach Open MPI.
    kData,
};
// For host memory: one driver query an operand.
Presence on_device(const Call& call);

// Has it data of a predefined type that every rank has in the call? May say no where only a longer look would find it.
bool has_plain_data(const Call& call);

// Has this rank host memory in a routed call, in which it has this on devices? Operands that MPI ignores or that have
// no data do not count. Throws std::bad_alloc.
bool any_on_host(const Call& call, Presence presence);

// A collective in which some ranks do not know how much the others pass: MPI_Gatherv and MPI_Scatterv, MPI_Alltoallv
// and MPI_Alltoallw, those on neighbours. No rank alone can tell whether it is a small one.
bool size_is_unknown(CallId id);

// Has it a root, of which `call.root` is the rank?
bool rooted(const Call& call);

// Bytes of a routed collective that MPI wants equal on all ranks: the whole message of MPI_Allreduce, MPI_Reduce and
// MPI_Bcast, all blocks of MPI_Reduce_scatter and MPI_Allgatherv, one rank's block of the others. 0 where a count is
// not valid (MPI reports that) and where the size is unknown. Not for intercommunicators.
std::size_t message_bytes(const Call& call);

// Is the message smaller than SWITCHYARD_NCCL_THRESHOLD? The same answer on every rank: what is compared is the size of
// all blocks together. Not for calls whose size is unknown; no on intercommunicators.
bool under_threshold(const Call& call);

// Bytes that this rank passes, for the report.
std::size_t payload_bytes(const Call& call);

}  // namespace swy::route
