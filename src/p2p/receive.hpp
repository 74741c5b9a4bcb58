// Receives that need this process until their payload has come: into device memory, large ones into host memory, and
// those of messages that a probe has taken from MPI. Made by take.cpp.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <vector>

#include "comm/state.hpp"
#include "p2p/control.hpp"
#include "p2p/envelope.hpp"
#include "p2p/landing.hpp"
#include "p2p/ledger.hpp"
#include "p2p/occupation.hpp"
#include "p2p/payload.hpp"
#include "p2p/transfer.hpp"
#include "request/operation.hpp"
#include "request/wait.hpp"

namespace swy::p2p {

// A message that has been taken from MPI before a receive for it was there.
struct Taken {
    int source = MPI_ANY_SOURCE;
    int tag = MPI_ANY_TAG;
    std::size_t bytes = 0;                   // of the payload
    std::optional<Envelope> envelope;        // one of these three
    std::vector<std::byte> payload;          // an ordinary message as long as an envelope
    MPI_Message message = MPI_MESSAGE_NULL;  // any other one, still with MPI
};

// Where MPI receives, as the program has described it: looked at only while the receive is posted.
struct Into {
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
};

class Receive final : public request::Operation {
  public:
    Receive(CallId call, MPI_Comm comm, Payload payload) : Operation(call, comm), payload_(std::move(payload)) {}
    ~Receive() override;

    // Of a communicator with another job: a large one into device memory is given up SWITCHYARD_TIMEOUT from now on,
    // for its sender cannot say that it is ready.
    void comes_from_afar();

    // One of these begins it, under the engine's lock. MPI's code; an error has been raised by MPI.
    int post(const Into& into, int source, int tag);
    int post(const Into& into, MPI_Message& message);
    int post(const Into& into, Taken taken);
    // The program's receive has completed in MPI with these bytes in its buffer.
    void adopt(const Envelope& envelope, const MPI_Status& status);

    bool step() override;
    bool only_asks() const override { return request_ != MPI_REQUEST_NULL; }
    void cancel() override;

    // From the sender.
    void answer(bool yes);
    void was(const std::optional<Envelope>& envelope);
    void failed(const std::string& why);

  private:
    bool look();
    bool ask();
    bool overdue();
    void arrived(const MPI_Status& status);
    bool ask_sender();
    void matched(const Envelope& envelope);
    void ordinary(std::size_t bytes);
    void choose();
    void begin(std::unique_ptr<Transfer> transfer, const std::string& why);
    void begin_copy(const std::byte* packed, bool page_locked);
    void begin_chunks();
    bool stays_aside();
    void transferred();
    void truncated(std::size_t bytes);
    void end(const std::string& failure);
    bool may_wait_in_buffer();
    void enter_buffer();
    void* landing(MPI_Count& count, MPI_Datatype& type, const Into& into);

    const Payload payload_;
    Landing landing_;     // where MPI receives when that is not the program's buffer:
    bool lands_ = false;  // device memory, or memory that another receive has
    Occupation occupation_;
    bool lost_ = false;  // the first message is there, and others may have been written over it
    bool from_afar_ = false;
    MPI_Request request_ = MPI_REQUEST_NULL;
    int source_ = MPI_ANY_SOURCE, tag_ = MPI_ANY_TAG;
    std::optional<Taken> taken_;

    std::optional<Envelope> envelope_;
    std::size_t bytes_ = 0;  // of the message
    std::uint64_t slot_ = 0;
    Control clear_{};
    bool choosing_ = false;
    std::unique_ptr<Transfer> transfer_;
    bool aside_ = false;    // it goes to `landing_`, and is copied when it is over
    bool copying_ = false;  // it is a copy within the process
    std::optional<request::Deadline> deadline_;
    Ledger ledger_;
};

// The envelope at the beginning of a receive buffer in host memory, in the packed order, if there is one; and out of
// it, for a shorter message that comes into the same memory would be taken for it.
std::optional<Envelope> envelope_in(const datatype::Layout* layout, const void* address, std::size_t count);
std::optional<Envelope> take_envelope(const datatype::Layout* layout, void* address, std::size_t count);

// A receive of less than an envelope's message has met one. `source` is the sender's rank in `comm`.
void release_sender(comm::State& state, int source, int tag, std::span<const std::byte> begin);

}  // namespace swy::p2p
