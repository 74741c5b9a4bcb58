// Watched receives when they complete. Only src/request uses this.
#pragma once

#include "call/envelope.hpp"
#include "request/handle.hpp"

namespace swy::request {

// Tells whether a completed receive has as many bytes as an envelope.
inline bool may_hold_envelope(const MPI_Status& status) {
    return status._ucount == call::kEnvelopeBytes && status._cancelled == 0 && envelope_arrived != nullptr;
}

}  // namespace swy::request
