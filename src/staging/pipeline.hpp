// The staged pipeline: a payload in chunks through pinned host memory, so that the copies between device and host
// overlap with Open MPI's transfer of other chunks. Host memory that is one run is sent and received in place. Used by
// p2p, under the engine's lock.
#pragma once

#include <mpi.h>

#include <memory>

#include "device/mapped.hpp"
#include "pack/payload.hpp"
#include "staging/transfer.hpp"

namespace swy::staging {

// The chunks of one message go from one rank to another on a private communicator, with a tag that no other transfer
// under way between the two has. Both ends give the same number of bytes, which may be less than the payload's, and the
// same chunk size (SWITCHYARD_P2P_CHUNK, the same on all ranks).
struct Route {
    MPI_Comm comm;
    int peer;
    int tag;
    int answer_tag = 0;  // for messages in the other direction
};
std::unique_ptr<Transfer> send_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route);
std::unique_ptr<Transfer> receive_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route);

// The same through a block of the receiver's device memory that the sender has mapped at `block`: the sender copies a
// chunk there, a short message says so, and the receiver copies it out.
std::unique_ptr<Transfer> write_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route,
                                       std::byte* block);
std::unique_ptr<Transfer> read_chunks(const pack::Payload& payload, std::size_t bytes, const Route& route,
                                      device::Mappable block);

// Copies a message that MPI has received into host memory to where the program wants it (`bytes` of the packed form).
// The memory at `packed` must stay until the transfer is done.
std::unique_ptr<Transfer> unpack(const pack::Payload& payload, std::size_t bytes, const std::byte* packed,
                                 bool page_locked);

// Copies all of the payload into host memory in the packed form.
std::unique_ptr<Transfer> pack(const pack::Payload& payload, std::byte* packed, bool page_locked);

// Copies runs of memory to others within the process: one to one, or runs that are all device memory.
std::unique_ptr<Transfer> copy(const pack::Payload& to, const pack::Payload& from, std::size_t bytes);

}  // namespace swy::staging
