// Several pending receives that share one buffer in host memory. MPI does not allow it, yet programs do it, OSU's
// bandwidth tests among them, and each of their receives completes. Here the first message of a receive may be an
// envelope, which another receive's message may overwrite before it has been read.
//
// As long as no envelope has come to host memory in this process, all receives of a buffer wait in it, as they do with
// MPI alone: the content of such a buffer says nothing about which receive it is for, and the sender is asked whose
// envelope it was. From the first envelope on, one receive of a buffer waits in it, the others wait in memory of their
// own, and none of them writes into the buffer unless that one has been checked just before.
//
// A buffer is known by the first byte of the data. Receives whose data begins elsewhere, for example into the columns
// of one matrix, may well be allowed, and are not treated here.
#pragma once

namespace swy::p2p {

class Receive;

// A large receive of MPI's own that does not block waits in its buffer too (request/receive_buffers.hpp): it never
// reads the buffer before it is complete, and asks the sender where another receive has used the buffer meanwhile.

// One operation's share of a buffer; the destructor ends it. Any thread may destroy it.
class SharedReceiveBuffer {
  public:
    SharedReceiveBuffer() = default;
    ~SharedReceiveBuffer();
    SharedReceiveBuffer(const SharedReceiveBuffer&) = delete;
    SharedReceiveBuffer& operator=(const SharedReceiveBuffer&) = delete;

    // At most one of the two is called, once. enter() is for a receive that does not wait in the buffer.
    void enter(const void* first_byte);
    // Returns false when `receive` cannot wait in the buffer, because another receive waits there. The buffer is
    // entered all the same.
    [[nodiscard]] bool enter_to_wait(const void* first_byte, Receive& receive);
    bool entered() const { return buffer_ != nullptr; }

    // For a receive that waits in the buffer: tells whether another one has waited there with it.
    bool content_is_lost() const;
    // For a receive that waits in the buffer: says that its first message has come and has been read. Does nothing for
    // others.
    void has_read();
    // Returns the one other operation that waits in this buffer and will read its content, or nullptr. It stays while
    // the engine's lock is held.
    Receive* who_reads() const;

  private:
    const void* buffer_ = nullptr;
    bool waits_ = false;
};

}  // namespace swy::p2p
