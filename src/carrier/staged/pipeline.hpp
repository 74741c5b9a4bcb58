// The staged pipeline: a payload in chunks through pinned host memory, so that the copies between device and host
// overlap with Open MPI's transfer of other chunks. Host memory that is one run is sent and received in place. Used by
// p2p, under the engine's lock.
#pragma once

#include <mpi.h>

#include <memory>

#include "p2p/payload.hpp"
#include "p2p/transfer.hpp"

namespace swy::carrier::staged {

// One message's chunks travel from one rank to one other on a communicator of ours, with a tag that no other transfer
// under way between the two has. Both ends give the same number of bytes, which may be less than the payload's, and the
// same chunk size (SWITCHYARD_P2P_CHUNK, agreed).
struct Route {
    MPI_Comm comm;
    int peer;
    int tag;
};
std::unique_ptr<p2p::Transfer> send_chunks(const p2p::Payload& payload, std::size_t bytes, const Route& route);
std::unique_ptr<p2p::Transfer> receive_chunks(const p2p::Payload& payload, std::size_t bytes, const Route& route);

// A message that MPI has received into host memory, copied to where the program wants it (`bytes` of the packed form).
// The memory at `packed` must stay until the transfer is done.
std::unique_ptr<p2p::Transfer> unpack(const p2p::Payload& payload, std::size_t bytes, const std::byte* packed,
                                      bool page_locked);

// The other way: all of the payload into host memory in the packed form.
std::unique_ptr<p2p::Transfer> pack(const p2p::Payload& payload, std::byte* packed, bool page_locked);

// A copy within the process of runs of memory to others: of one to one, or of runs that are all device memory.
std::unique_ptr<p2p::Transfer> copy(const p2p::Payload& to, const p2p::Payload& from, std::size_t bytes);

}  // namespace swy::carrier::staged
