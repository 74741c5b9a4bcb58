#include "p2p/receive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "call/counted.hpp"
#include "comm/launch_order.hpp"
#include "comm/where.hpp"
#include "comm/world.hpp"
#include "error/loss.hpp"
#include "fastpath/message.hpp"
#include "p2p/service.hpp"
#include "p2p/watched.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "real.hpp"
#include "request/handle.hpp"
#include "request/message_layer.hpp"
#include "request/real_end.hpp"
#include "request/receive_buffers.hpp"
#include "settings/settings.hpp"

namespace swy::p2p {

Receive::Receive(CallId call, MPI_Comm comm, pack::Payload payload, const Owner& place)
    : Operation(call, comm), payload_(std::move(payload)), record_(call, place) {}

// A receive that is done has left the service already, and may be destroyed by a thread that does not hold the engine's
// lock.
Receive::~Receive() {
    if (!done())
        leave_receive(slot_);
    if (request_ != MPI_REQUEST_NULL)
        real::Request_free(&request_);
}

bool Receive::may_wait_in_buffer() {
    if (!payload_.device && payload_.bytes >= call::kEnvelopeBytes)
        return sharing_.enter_to_wait(payload_.first_byte(), *this);
    enter_buffer();
    return false;
}

// For a receive whose first message has come elsewhere.
void Receive::enter_buffer() {
    if (!payload_.device && payload_.bytes != 0 && !sharing_.entered())
        sharing_.enter(payload_.first_byte());
}

// Returns the buffer that MPI gets: the program's host memory as the program has described it, or a bounce buffer.
// There is room for an envelope in either, whatever the message that it stands for is received into.
void* Receive::bounce(MPI_Count& count, MPI_Datatype& type, const Into& into) {
    count = into.count;
    type = into.type;
    lands_ = !may_wait_in_buffer();
    if (!lands_)
        return payload_.address;
    count = 1;
    const std::size_t room = std::max(payload_.bytes, call::kEnvelopeBytes);
    return bounce_.acquire_to_receive(payload_.where.context, room, type) == MPI_SUCCESS ? bounce_.data() : nullptr;
}

void Receive::comes_from_afar() {
    from_afar_ = true;
    if (payload_.device && payload_.bytes >= fastpath::limit)
        deadline_.emplace(settings::values().timeout);
}

// The program gets the error where it completes its request.
int Receive::no_memory() {
    fail(MPI_ERR_NO_MEM,
         fmt::format("{}: no address space for {} bytes of host memory, which a message into as much device memory may "
                     "need: allow the process more (ulimit -v), or have fewer large receives pending",
                     comm::where(call(), comm()), payload_.bytes));
    return MPI_SUCCESS;
}

void Receive::comes_from(int source, int tag) {
    source_ = source;
    tag_ = tag;
    record_.is_message(source, tag);
}

int Receive::post(const Into& into, int source, int tag) {
    comes_from(source, tag);
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    void* buffer = bounce(count, type, into);
    if (lands_ && buffer == nullptr) {
        return no_memory();
    }
    const call::Counted counted(count, type);
    return real::Irecv(buffer, counted.count(), counted.type(), source, tag, comm(), &request_);
}

int Receive::post(const Into& into, MPI_Message& message) {
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    void* buffer = bounce(count, type, into);
    if (lands_ && buffer == nullptr) {
        return no_memory();
    }
    const call::Counted counted(count, type);
    return real::Imrecv(buffer, counted.count(), counted.type(), &message, &request_);
}

int Receive::post(const Into& into, ProbedMessage taken) {
    comes_from(taken.source, taken.tag);
    if (taken.message != MPI_MESSAGE_NULL)
        return post(into, taken.message);
    if (taken.envelope) {
        matched(*taken.envelope);
        return MPI_SUCCESS;
    }
    taken_ = std::move(taken);
    if (taken_->payload.size() > payload_.bytes)
        truncated(taken_->payload.size());
    else {
        bytes_ = taken_->payload.size();
        enter_buffer();
        begin_copy(taken_->payload.data(), false);
    }
    return MPI_SUCCESS;
}

void Receive::adopt(const call::Envelope& envelope, const MPI_Status& status) {
    comes_from(status.MPI_SOURCE, status.MPI_TAG);
    matched(envelope);
}

void Receive::adopt_unseen(const MPI_Status& status) {
    comes_from(status.MPI_SOURCE, status.MPI_TAG);
    if (!ask_sender())
        ordinary(call::kEnvelopeBytes);
}

void Receive::take_over(MPI_Request request, bool lost) {
    request_ = request;
    lost_ = lost || !may_wait_in_buffer();
}

bool Receive::step() {
    if (request_ != MPI_REQUEST_NULL)
        return look();
    if (choosing_)
        choose();
    if (!transfer_.begun())
        return false;
    if (copying_)
        if (Receive* other = sharing_.who_reads())
            other->poll();
    const bool moved = transfer_.step();
    if (!transfer_.under_way())
        transferred();
    return moved;
}

std::string Receive::describe() const {
    const std::string from = source_ == MPI_ANY_SOURCE ? "any rank" : fmt::format("rank {}", source_);
    const std::string tag = tag_ == MPI_ANY_TAG ? "any tag" : fmt::format("tag {}", tag_);
    const bool has_come = request_ == MPI_REQUEST_NULL;
    const char* state = !has_come                              ? "no message has come"
                        : choosing_                            ? "what it needs on the GPU is in use"
                        : !transfer_.begun()                   ? "the sender has not answered"
                        : clear_.how == How::kStaged           ? "its transfer through host memory has not ended"
                        : clear_.how == How::kMapped           ? "its transfer through this rank's memory has not ended"
                        : copying_ || clear_.how == How::kCopy ? "its copy has not ended"
                                                               : "its transfer over NCCL has not ended";
    return fmt::format("{}: {}{} bytes from {}, {}: {}", comm::where(call(), comm()), has_come ? "" : "up to ",
                       has_come ? bytes_ : payload_.bytes, from, tag, state);
}

void Receive::cancel() {
    // MPI does not cancel what it has matched; look() finds what it does cancel.
    if (request_ != MPI_REQUEST_NULL)
        real::Cancel(&request_);
}

bool Receive::look() {
    return progress::may_poll() && poll();
}

// Tells whether MPI has received. The only error that matters is that of a message which is too long. The length says
// so, and MPI need not be asked for the code, which calls an error handler; over UCX it may be any communicator's,
// since Open MPI forgets that of an MPI_Imrecv. Only over libfabric the length may then be that of another message; and
// where processes may be lost, their loss is an error too.
bool Receive::ended(MPI_Status& status, int& code) {
    if (request::message_layer() == "cm" || error::survives)
        return request::has_ended(request_, Owner(comm()), status, code);
    int flag = 0;
    code = real::Request_get_status(request_, &flag, &status);
    if (code == MPI_SUCCESS && flag == 0)
        return false;
    real::Request_free(&request_);
    return true;
}

// Goes on when MPI has received. An error is found here and raised where the program completes its request.
bool Receive::poll() {
    MPI_Status status;
    int code = MPI_SUCCESS;
    if (!ended(status, code))
        return overdue();
    lost_ = lost_ || sharing_.content_is_lost();
    sharing_.has_read();
    arrived(status, code);
    return true;
}

// Gives up a receive whose time has passed. MPI may have matched it, and may still be writing to the memory.
bool Receive::overdue() {
    if (!deadline_ || !deadline_->passed())
        return false;
    real::Cancel(&request_);
    progress::keep_until(std::exchange(request_, MPI_REQUEST_NULL), std::make_shared<BounceBuffer>(std::move(bounce_)));
    const std::string from = source_ == MPI_ANY_SOURCE ? "any rank" : fmt::format("rank {}", source_);
    fail(MPI_ERR_OTHER,
         fmt::format("{}: up to {} bytes from {}: {} and no message has come whole. The sender is of a job that was "
                     "started apart: it has not come to its send, or is gone",
                     comm::where(call(), comm()), payload_.bytes, from, deadline_->why()));
    return true;
}

void Receive::refused_by_mpi(int code) {
    int mpi_class = MPI_ERR_OTHER;
    real::Error_class(code, &mpi_class);
    const std::string what = mpi_class == MPI_ERR_TRUNCATE
                                 ? fmt::format(
                                       "the message is longer than the receive buffer of {} bytes: receive with "
                                       "a larger count",
                                       payload_.bytes)
                                 : "MPI could not receive the message";
    progress::Outcome outcome;
    outcome.source = source_;
    outcome.tag = tag_;
    outcome.mpi_class = mpi_class;
    outcome.text = fmt::format("{}: {}", comm::where(call(), comm()), what);
    finish(std::move(outcome));
}

void Receive::arrived(const MPI_Status& status, int code) {
    int cancelled = 0;
    real::Test_cancelled(&status, &cancelled);
    if (cancelled) {
        progress::Outcome outcome;
        outcome.cancelled = true;
        finish(std::move(outcome));
        return;
    }
    comes_from(status.MPI_SOURCE, status.MPI_TAG);
    const std::size_t bytes = status._ucount;
    void* buffer = lands_ ? bounce_.data() : payload_.address;
    if (code != MPI_SUCCESS && bytes <= payload_.bytes) {
        refused_by_mpi(code);
        return;
    }
    if (bytes == call::kEnvelopeBytes && fastpath::envelopes && lost_) {
        if (ask_sender())
            return;
    } else if (bytes == call::kEnvelopeBytes && fastpath::envelopes) {
        // The bytes in a bounce buffer are packed already.
        const datatype::Layout* layout = lands_ || payload_.contiguous ? nullptr : payload_.layout.get();
        void* first = lands_ ? buffer : payload_.contiguous ? payload_.data : buffer;
        if (const auto envelope = take_envelope(layout, first, payload_.count)) {
            bounce_.touched(bytes);
            matched(*envelope);
            return;
        }
    }
    if (bytes > payload_.bytes)
        truncated(bytes);
    else
        ordinary(bytes);
}

// Asks the sender which message it was. Returns false where it cannot have been an envelope.
bool Receive::ask_sender() {
    comm::State* const here = state();
    const int sender = here != nullptr ? comm::world_rank(*here, source_) : -1;
    if (sender < 0)
        return false;
    slot_ = enter(this);
    sender_ = sender;
    send_control(
        sender,
        {.type = MessageType::kWhich, .key = {comm::number_of(*here), source_, here->rank, tag_}, .slot = slot_});
    return true;
}

void Receive::was(const std::optional<call::Envelope>& envelope) {
    if (done() || envelope_)
        return;
    if (envelope)
        matched(*envelope);
    else
        ordinary(call::kEnvelopeBytes);
}

}  // namespace swy::p2p
