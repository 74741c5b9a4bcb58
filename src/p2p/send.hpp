// Send operations: an envelope for a large message in device memory, an ordinary message for any other. start.cpp
// creates them.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>

#include "call/envelope.hpp"
#include "comm/state.hpp"
#include "p2p/bounce_buffer.hpp"
#include "p2p/control.hpp"
#include "pack/payload.hpp"
#include "progress/operation.hpp"
#include "progress/wait.hpp"
#include "report/op_record.hpp"
#include "staging/limited_transfer.hpp"
#include "staging/transfer.hpp"

namespace swy::p2p {

enum class Mode : std::uint8_t { kStandard, kSynchronous, kReady, kBuffered };

// The real non-blocking send of a mode.
int real_isend(Mode mode, const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request* request);

// Sends an envelope; the payload follows when the receiver has said how.
class Send final : public progress::Operation {
  public:
    Send(CallId call, MPI_Comm comm, pack::Payload payload, int dest, int tag);
    ~Send() override;

    // Starts the operation: sends the envelope to rank `to` of MPI_COMM_WORLD. Returns MPI's code; MPI has raised an
    // error already.
    int post(Mode mode, comm::State& state, int to);
    // The same for a synchronous host message, whose payload `data` goes ahead in a control message.
    int post_with(const call::EnvelopeBytes& data, comm::State& state, int to);

    // Keeps the owner of the payload's memory alive, when that is not the program's buffer.
    void keep(std::shared_ptr<void> owner) { owner_ = std::move(owner); }

    // Says that there is no payload: the receiver gets this error when it has matched the envelope.
    void refuse(std::string why) { refused_ = std::move(why); }

    bool step() override;
    std::string describe() const override;

    // These handle control messages from the receiver.
    void clear(int from, const Control& control);
    void failed(const std::string& why);
    void end_if_lost();  // where the receiver has failed or the communicator has been revoked

    // For a receiver in this process, which copies the payload itself.
    const pack::Payload& payload() const { return payload_; }
    void copied(const std::string& failure);

    // Tells whether no receive on that rank has shown that it has the envelope, or has been told of it.
    bool is_unknown_to(int to, const MatchKey& key) const {
        return to == to_ && key.may_be({number_, source_, dest_, tag_}) && !known_;
    }
    // Answers a receive that asks for the envelope because it was overwritten in a buffer that the receive shares with
    // others.
    const call::EnvelopeBytes& give_to(std::uint64_t slot);
    void release();  // the receiver's buffer was too small: nothing more is sent (MPI 4.0 section 3.2.4: its error)

  private:
    call::Envelope enter_for(comm::State& state, int to);
    int post(Mode mode, const call::Envelope& envelope);
    bool ask_whether_received();
    void give_up(const std::string& why);
    void end(const std::string& failure);
    void fail_with(const std::string& why);
    report::trace::ArrowEnd arrow() const;

    pack::Payload payload_;
    const int dest_, tag_;
    std::int64_t number_ = 0;  // of the communicator
    int source_ = 0;           // this rank in it
    std::shared_ptr<void> owner_;
    std::string refused_;
    int to_ = -1;  // the receiver in MPI_COMM_WORLD
    std::uint64_t id_ = 0;
    call::EnvelopeBytes envelope_{};
    MPI_Request request_ = MPI_REQUEST_NULL;  // of a host message's envelope, until MPI has matched it
    bool synchronous_ = false;                // a host message: the send is complete when it is released
    bool known_ = false;                      // a receive has the envelope
    std::uint64_t given_to_ = 0;              // the slot of the receive that was told of it
    std::optional<Control> cleared_;
    staging::LimitedTransfer transfer_;
    report::OpRecord record_{call(), owner()};
};

// An eager send: an ordinary message that MPI sends from host memory, the program's own or a copy of the device memory.
class EagerSend final : public progress::Operation {
  public:
    EagerSend(CallId call, MPI_Comm comm, std::size_t bytes) : Operation(call, comm), bytes_(bytes) {}
    ~EagerSend() override;

    int post(Mode mode, const void* data, MPI_Count count, MPI_Datatype type, int dest, int tag);
    BounceBuffer& copy() { return copy_; }  // memory that lives as long as MPI needs it
    report::OpRecord& record() { return record_; }

    // Gives up the send after SWITCHYARD_TIMEOUT from now, for a receiver that cannot say that it is ready.
    void limit_time();

    bool step() override;
    bool only_asks() const override { return true; }
    std::string describe() const override;

  private:
    const std::size_t bytes_;
    int dest_ = MPI_PROC_NULL, tag_ = MPI_ANY_TAG;  // of the message
    std::optional<progress::Deadline> deadline_;
    BounceBuffer copy_;
    MPI_Request request_ = MPI_REQUEST_NULL;
    report::OpRecord record_{call(), owner()};
};

}  // namespace swy::p2p
