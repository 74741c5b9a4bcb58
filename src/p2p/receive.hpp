// Receive operations, which need this process until their payload has come: receives into device memory, large ones
// into host memory, and those of messages that a probe has taken from MPI. start.cpp creates them; receive.cpp has what
// they do until their message is known, delivery.cpp what they do then.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "call/envelope.hpp"
#include "comm/state.hpp"
#include "device/mapped.hpp"
#include "p2p/bounce_buffer.hpp"
#include "p2p/control.hpp"
#include "p2p/mapped.hpp"
#include "p2p/shared_receive_buffer.hpp"
#include "pack/payload.hpp"
#include "progress/operation.hpp"
#include "progress/wait.hpp"
#include "report/op_record.hpp"
#include "staging/limited_transfer.hpp"
#include "staging/transfer.hpp"

namespace swy::p2p {

// A message that a probe has taken from MPI before the program posted a receive for it.
struct ProbedMessage {
    int source = MPI_ANY_SOURCE;
    int tag = MPI_ANY_TAG;
    std::size_t bytes = 0;                   // of the payload
    std::optional<call::Envelope> envelope;  // set when it is an envelope; else one of the next two
    std::vector<std::byte> payload;          // an ordinary message as long as an envelope
    MPI_Message message = MPI_MESSAGE_NULL;  // any other message, matched but not received
};

// The receive buffer as the program has described it. Used only when the receive is posted.
struct Into {
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
};

class Receive final : public progress::Operation {
  public:
    // `place` is what the records of it name: the communicator, or nothing where that may have been freed by now.
    Receive(CallId call, MPI_Comm comm, pack::Payload payload, const Owner& place);
    Receive(CallId call, MPI_Comm comm, pack::Payload payload) : Receive(call, comm, std::move(payload), Owner(comm)) {}
    ~Receive() override;

    // For a communicator that spans jobs: gives up a large receive into device memory after SWITCHYARD_TIMEOUT from
    // now, because its sender cannot say that it is ready.
    void comes_from_afar();

    // Each of these starts the operation, under the engine's lock. They return MPI's code; MPI has raised an error
    // already.
    int post(const Into& into, int source, int tag);
    int post(const Into& into, MPI_Message& message);
    int post(const Into& into, ProbedMessage taken);
    // Takes over after the program's own receive has completed in MPI with this envelope in its buffer.
    void adopt(const call::Envelope& envelope, const MPI_Status& status);
    // The same where the message has an envelope's length and other receives have used its memory: the sender is asked.
    void adopt_unseen(const MPI_Status& status);
    // Takes over a request of the program's that MPI has yet to complete; `lost` when other receives have used its
    // memory.
    void take_over(MPI_Request request, bool lost);

    bool step() override;
    bool only_asks() const override { return request_ != MPI_REQUEST_NULL; }
    void cancel() override;
    std::string describe() const override;

    // These handle control messages from the sender.
    void answer(bool yes);
    void was(const std::optional<call::Envelope>& envelope);
    void failed(const std::string& why);
    void end_if_lost();  // where the sender has failed or the communicator has been revoked

  private:
    // Null for a matched receive whose communicator is not known, and for a communicator that the program has freed
    // since (MPI 4.0 section 7.4.3: what is pending completes all the same).
    comm::State* state() const;
    void comes_from(int source, int tag);
    bool look();
    bool poll();
    bool ended(MPI_Status& status, int& code);
    bool overdue();
    void arrived(const MPI_Status& status, int code);
    void refused_by_mpi(int code);
    bool ask_sender();
    void matched(const call::Envelope& envelope);
    void ordinary(std::size_t bytes);
    void choose();
    void begin(std::unique_ptr<staging::Transfer> transfer, const std::string& why);
    void begin_copy(const std::byte* packed, bool page_locked);
    void begin_chunks();
    bool stays_aside();
    void transferred();
    void truncated(std::size_t bytes);
    void give_up(const std::string& why);
    report::trace::ArrowEnd arrow() const;
    void end(const std::string& failure);
    bool may_wait_in_buffer();
    void enter_buffer();
    int no_memory();
    void* bounce(MPI_Count& count, MPI_Datatype& type, const Into& into);

    pack::Payload payload_;
    BounceBuffer bounce_;  // where MPI receives when the program's buffer is not used (`lands_`):
    bool lands_ = false;   // device memory, memory shorter than an envelope, or memory in which another receive waits
    SharedReceiveBuffer sharing_;
    bool lost_ = false;  // the first message has arrived, and others may have overwritten it
    bool from_afar_ = false;
    MPI_Request request_ = MPI_REQUEST_NULL;
    int source_ = MPI_ANY_SOURCE, tag_ = MPI_ANY_TAG;
    std::optional<ProbedMessage> taken_;

    std::optional<call::Envelope> envelope_;
    std::size_t bytes_ = 0;  // of the message
    std::uint64_t slot_ = 0;
    int sender_ = -1;  // in MPI_COMM_WORLD, once it is asked for something
    Control clear_{};
    bool choosing_ = false;
    device::Mappable block_;  // until the sender has answered whether it can write there
    mapped::Claim claim_;     // while the message uses the block
    staging::LimitedTransfer transfer_;
    bool aside_ = false;    // chunks go to `bounce_`, and are copied once all have come
    bool copying_ = false;  // the transfer is a copy within this process
    std::optional<progress::Deadline> deadline_;
    report::OpRecord record_;
};

}  // namespace swy::p2p
