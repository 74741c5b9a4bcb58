// MPI's own receives into host memory, in which an envelope may arrive: how it is found there, and what src/request
// asks of p2p about those that do not block (request/handle.hpp). service.cpp hands the latter functions over.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "call/envelope.hpp"
#include "datatype/layout.hpp"
#include "pack/payload.hpp"
#include "progress/operation.hpp"
#include "request/handle.hpp"

namespace swy::p2p {

pack::Payload host_payload(const request::HostReceive& receive);

std::shared_ptr<progress::Operation> envelope_arrived(request::HostReceive& receive, const MPI_Status& status);
bool shows_envelope(const request::HostReceive& receive);
std::shared_ptr<progress::Operation> go_on(request::HostReceive& receive, MPI_Request request);

// envelope_in() returns the envelope at the beginning of a receive buffer in host memory, in the packed order, if there
// is one. take_envelope() also clears it there, since a shorter message that comes into the same memory later would be
// taken for it.
std::optional<call::Envelope> envelope_in(const datatype::Layout* layout, const void* address, std::size_t count);
std::optional<call::Envelope> take_envelope(const datatype::Layout* layout, void* address, std::size_t count);

// Clears what a receive with room for only `bytes` bytes, fewer than an envelope has, has received of one. Otherwise a
// shorter message that comes into the same memory later would be taken for the envelope whenever the bytes behind the
// receive's room happen to be those that were cut off. Returns false where the room shows that the message, of an
// envelope's length, was an ordinary one.
bool clear_truncated_envelope(const datatype::Layout* layout, void* address, std::size_t count, std::size_t bytes);

// Called when a receive that is too small for an envelope has met a message of an envelope's length that may have been
// one: releases the sender, if it was. `source` is the sender's rank in `comm`. Called under the engine's lock, not
// in a step of an operation.
void release_sender(MPI_Comm comm, int source, int tag);

}  // namespace swy::p2p
