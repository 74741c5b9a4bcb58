// Several receives at once into one buffer in host memory. MPI does not allow it, programs do it all the same, OSU's
// bandwidth tests among them, and each of their receives completes. Here the first message of a receive may be an
// envelope, which another one's message may overwrite before it has been read.
//
// As long as no envelope has come to host memory in this process, all receives of a buffer wait in it, as they do with
// MPI alone: such a buffer's content tells nothing, and whose envelope it was the sender is asked. From the first
// envelope on one receive of a buffer waits in it, the others in memory of their own, and none of them writes into it
// unless that one has been looked at just before.
//
// A buffer is known by the first byte of the data. Receives whose data begins elsewhere, into the columns of one matrix
// for example, may well be allowed, and are none of this.
#pragma once

namespace swy::p2p {

class Receive;

// One receive's part in a buffer; leaves it with its end. Any thread may end it.
class Occupation {
  public:
    Occupation() = default;
    ~Occupation();
    Occupation(const Occupation&) = delete;
    Occupation& operator=(const Occupation&) = delete;

    // At most one of the two, once.
    void enter(const void* first_byte);
    // False when `receive` cannot wait in the buffer, for another one has it. It has entered all the same.
    [[nodiscard]] bool enter_to_wait(const void* first_byte, Receive& receive);
    bool entered() const { return buffer_ != nullptr; }

    // Of one that waits in the buffer: has another one waited there with it?
    bool content_is_lost() const;
    // Of one that has waited in the buffer: its first message is there, and has been read. Nothing for the others.
    void has_read();
    // The one other receive that waits in this buffer and will read its content; else nullptr. It stays while the
    // engine's lock is held.
    Receive* who_reads() const;

    // An envelope has come to host memory.
    static void beware();

  private:
    const void* buffer_ = nullptr;
    bool waits_ = false;
};

}  // namespace swy::p2p
