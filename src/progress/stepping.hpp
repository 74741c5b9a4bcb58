// For an MPI whose progress does not call the engine back: the calls on requests and messages step it themselves.
// start_engine() alone calls this file.
#pragma once

namespace swy::progress {

// Replaces the real functions (call/replace.hpp) that complete requests, and those that send, receive and probe. One
// that does not wait steps the engine once; one that waits is made of those that do not, in a loop. Idempotent.
//
// MPI_Buffer_detach waits without a step: MPI has no other function that tells when its buffer is empty.
void step_in_calls();

}  // namespace swy::progress
