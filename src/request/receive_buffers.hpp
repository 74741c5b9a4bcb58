// The buffers in host memory into which large messages are being received, each known by the first byte of its data:
// which receives wait in it, and whether its content tells which of them it is for. src/p2p/shared_receive_buffer.hpp
// says why. Used by receives of MPI's own that are watched, and by p2p's operations.
#pragma once

#include "progress/operation.hpp"

namespace swy::request::buffers {

// enter() is for a receive that does not wait in the buffer. enter_to_wait() returns false when a receive cannot wait
// there, because another one does; the buffer is entered all the same. `reader` is the receive's operation, null for a
// receive of MPI's own.
void enter(const void* first_byte);
[[nodiscard]] bool enter_to_wait(const void* first_byte, progress::Operation* reader);
void leave(const void* first_byte, bool waits);

// For a receive that waits in the buffer: tells whether another one has waited there with it, or has written there.
bool content_is_lost(const void* first_byte);
// Says that the first message of a receive that has waited in the buffer has come and has been read.
void has_read(const void* first_byte);
// Returns the one operation that waits in the buffer and will read its content, or nullptr.
progress::Operation* who_reads(const void* first_byte);

// Says that an envelope has come to host memory in this process.
void beware();

}  // namespace swy::request::buffers
