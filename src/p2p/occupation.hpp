// Several receives at once into one buffer in host memory. MPI does not allow it, programs do it all the same, OSU's
// bandwidth tests among them, and each of their receives completes. Here the first message of a receive may be an
// envelope, which must not be written over before it has been read: one receive of a buffer waits in it, the others in
// memory of their own, and none of them writes into it unless that one has been looked at just before.
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
    void enter(const void* buffer);
    // False when another receive has the buffer: `receive` has entered all the same, and cannot wait in it.
    [[nodiscard]] bool enter_to_wait(const void* buffer, Receive& receive);
    bool entered() const { return buffer_ != nullptr; }

    // Of the one that has waited in the buffer: its first message is there, and has been read. Nothing for the others.
    void has_read();
    // The receive of this buffer that still waits in it, when it is not this one itself; else nullptr. It stays while
    // the engine's lock is held.
    Receive* who_waits() const;

  private:
    const void* buffer_ = nullptr;
    bool waits_ = false;
};

}  // namespace swy::p2p
