// Sends: an envelope for a large message in device memory, an ordinary message for any other. Made by take.cpp.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>

#include "comm/state.hpp"
#include "p2p/control.hpp"
#include "p2p/envelope.hpp"
#include "p2p/landing.hpp"
#include "p2p/ledger.hpp"
#include "p2p/payload.hpp"
#include "p2p/transfer.hpp"
#include "request/operation.hpp"
#include "request/wait.hpp"

namespace swy::p2p {

enum class Mode : std::uint8_t { kStandard, kSynchronous, kReady, kBuffered };

// The real non-blocking send of a mode.
int real_isend(Mode mode, const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request* request);

// Goes out as an envelope; the payload follows when the receiver has said how.
class Send final : public request::Operation {
  public:
    Send(CallId call, MPI_Comm comm, Payload payload, int dest, int tag);
    ~Send() override;

    // MPI's code; an error has been raised by MPI.
    int post(Mode mode, comm::State& state, int to);

    // What the payload's memory belongs to, when it is not the program's.
    void keep(std::shared_ptr<void> owner) { owner_ = std::move(owner); }

    bool step() override;

    // From the receiver.
    void clear(int from, const Control& control);
    void failed(const std::string& why);

    // The receiver is in this process and copies by itself.
    const Payload& payload() const { return payload_; }
    void copied(const std::string& failure);

    // Is this the send whose envelope begins with these bytes?
    bool begins(int to, int tag, std::span<const std::byte> bytes) const;
    // Has no receive on that rank shown that it has the envelope, or been told of it?
    bool is_unknown_to(int to, int tag) const { return to == to_ && tag == tag_ && !known_; }
    // That receive asks: the envelope was written over in a buffer that it shares with others.
    const EnvelopeBytes& give_to(std::uint64_t slot);
    void release();  // the receiver's buffer was too small: nothing more is sent (MPI 4.0 section 3.2.4: its error)

  private:
    void end(const std::string& failure);

    const Payload payload_;
    const int dest_, tag_;
    std::shared_ptr<void> owner_;
    int to_ = -1;  // the receiver in MPI_COMM_WORLD
    std::uint64_t id_ = 0;
    EnvelopeBytes envelope_{};
    bool known_ = false;          // a receive has the envelope
    std::uint64_t given_to_ = 0;  // the one that was told of it
    std::optional<Control> cleared_;
    std::unique_ptr<Transfer> transfer_;
    std::optional<request::Deadline> deadline_;
    Ledger ledger_;
};

// An ordinary message, sent by MPI from host memory: the program's own, or a copy of what is on the device.
class PlainSend final : public request::Operation {
  public:
    PlainSend(CallId call, MPI_Comm comm, std::size_t bytes) : Operation(call, comm), bytes_(bytes) {}
    ~PlainSend() override;

    int post(Mode mode, const void* data, MPI_Count count, MPI_Datatype type, int dest, int tag);
    Landing& copy() { return copy_; }  // memory that lives as long as the message needs it
    Ledger& ledger() { return ledger_; }

    // From now on it is given up after SWITCHYARD_TIMEOUT: where the receiver cannot say that it is ready.
    void limit_time(int dest, int tag);

    bool step() override;
    bool only_asks() const override { return true; }

  private:
    const std::size_t bytes_;
    int dest_ = MPI_PROC_NULL, tag_ = MPI_ANY_TAG;  // of one whose time is limited
    std::optional<request::Deadline> deadline_;
    Landing copy_;
    MPI_Request request_ = MPI_REQUEST_NULL;
    Ledger ledger_;
};

}  // namespace swy::p2p
