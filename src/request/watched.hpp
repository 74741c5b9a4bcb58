// Watched receives once they complete. Used by src/request alone.
#pragma once

#include "p2p/envelope.hpp"
#include "request/handle.hpp"

namespace swy::request {

// Has a completed receive as many bytes as an envelope?
inline bool may_hold_envelope(const MPI_Status& status) {
    return status._ucount == p2p::kEnvelopeBytes && status._cancelled == 0 && envelope_arrived != nullptr;
}

// Keeps the request of a receive that the program has freed while it was active, and frees it once it has completed.
void abandon(MPI_Request request, HostReceive receive);

}  // namespace swy::request
