#include "p2p/send.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "call/counted.hpp"
#include "comm/launch_order.hpp"
#include "comm/where.hpp"
#include "error/required.hpp"
#include "p2p/mapped.hpp"
#include "p2p/pair_comms.hpp"
#include "p2p/service.hpp"
#include "pack/packed.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "real.hpp"
#include "request/real_end.hpp"
#include "settings/settings.hpp"
#include "staging/pipeline.hpp"

namespace swy::p2p {
namespace {

constexpr const char* kTakenForAnother =
    "it was taken for the message of another receive with this tag, which shared its buffer with more receives: give "
    "each pending receive memory of its own";

std::string sent_as(const progress::Operation& send, std::size_t bytes, int dest, int tag) {
    return fmt::format("{}: {} bytes to rank {}, tag {}", comm::where(send.call(), send.owner()), bytes, dest, tag);
}

}  // namespace

int real_isend(Mode mode, const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
    switch (mode) {
        case Mode::kSynchronous:
            return real::Issend(data, count, type, dest, tag, comm, request);
        case Mode::kReady:
            return real::Irsend(data, count, type, dest, tag, comm, request);
        case Mode::kBuffered:
            return real::Ibsend(data, count, type, dest, tag, comm, request);
        case Mode::kStandard:
            break;
    }
    return real::Isend(data, count, type, dest, tag, comm, request);
}

Send::Send(CallId call, MPI_Comm comm, pack::Payload payload, int dest, int tag)
    : Operation(call, comm), payload_(std::move(payload)), dest_(dest), tag_(tag) {
    record_.is_message(dest, tag);
}

// A send that is done has left the service already, and may be destroyed by a thread that does not hold the engine's
// lock.
Send::~Send() {
    if (!done())
        leave_send(id_);
    if (request_ != MPI_REQUEST_NULL)
        real::Request_free(&request_);
}

call::Envelope Send::enter_for(comm::State& state, int to) {
    to_ = to;
    number_ = comm::number_of(state);
    source_ = state.rank;
    id_ = enter(this);
    call::Envelope envelope;
    envelope.id = id_;
    envelope.bytes = payload_.bytes;
    envelope.sender = static_cast<std::uint32_t>(own_rank());
    return envelope;
}

int Send::post_with(const call::EnvelopeBytes& data, comm::State& state, int to) {
    call::Envelope envelope = enter_for(state, to);
    envelope.synchronous = synchronous_ = true;
    Control payload{.type = MessageType::kPayload, .id = id_, .bytes = data.size()};
    std::copy(data.begin(), data.end(), payload.content.begin());
    send_control(to, payload);
    return post(Mode::kSynchronous, envelope);
}

int Send::post(Mode mode, comm::State& state, int to) {
    call::Envelope envelope = enter_for(state, to);
    envelope.contiguous = payload_.contiguous;
    envelope.several = !payload_.runs.empty();
    mapped::describe(payload_, envelope);
    pair_comms::describe(payload_, to, &state, envelope);
    return post(mode, envelope);
}

int Send::post(Mode mode, const call::Envelope& envelope) {
    envelope_ = call::write(envelope, secret());
    // The receiver answers when the envelope has been matched, so a synchronous send needs no more than that, and its
    // envelope is sent in standard mode.
    const Mode as = mode == Mode::kReady || synchronous_ ? mode : Mode::kStandard;
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = real_isend(as, envelope_.data(), call::kEnvelopeBytes, MPI_BYTE, dest_, tag_, comm(), &request);
    // `envelope_` lives until the receiver has answered, and so has received it.
    if (rc == MPI_SUCCESS && synchronous_)
        request_ = request;
    else if (rc == MPI_SUCCESS)
        real::Request_free(&request);
    return rc;
}

void Send::clear(int from, const Control& control) {
    if (transfer_.begun() || done())
        return;
    known_ = true;
    if (given_to_ != 0 && control.slot != given_to_) {
        tell_failed(from, 0, control.slot, kTakenForAnother);
        return;
    }
    pair_comms::take_offer(control, from, payload_);
    if (control.how == How::kNothing) {
        release();
        return;
    }
    if (control.how == How::kRefused) {
        fail_with(error::refusal(control.reason));
        return;
    }
    if (!refused_.empty()) {
        cleared_ = control;
        end(refused_);
        return;
    }
    std::byte* const block = control.how == How::kMapped ? mapped::block_in(control, payload_) : nullptr;
    if (control.how == How::kParent || control.how == How::kMapped) {
        Control answer{
            .type = MessageType::kAnswer, .how = control.how, .slot = control.slot, .pair_comm = control.pair_comm};
        const bool yes = control.how == How::kMapped ? block != nullptr : pair_comms::reserve(control, from);
        answer.flag = yes ? 1 : 0;
        send_control(from, answer);
        if (answer.flag == 0)
            return;  // the receiver chooses again
    }
    cleared_ = control;
    std::string why;
    Carrier carrier = Carrier::kNccl;
    switch (control.how) {
        case How::kStaged:
            carrier = Carrier::kStaged;
            pack::Packed::take_back(payload_);
            transfer_.begin(staging::send_chunks(payload_, control.bytes, chunk_route(from, control.slot)));
            break;
        case How::kMapped:
            carrier = Carrier::kPeer;
            pack::Packed::take_back(payload_);
            transfer_.begin(staging::write_chunks(payload_, control.bytes, chunk_route(from, control.slot), block));
            break;
        default:
            transfer_.begin(pair_comms::send(control, from, payload_, why));
    }
    record_.route(carrier, control.reason, payload_.bytes);
    if (!transfer_.begun())
        end(why);
}

// Asks the receiver once MPI has matched the envelope of a synchronous host message: a receive that its program has yet
// to complete may have matched it, or a probe.
bool Send::ask_whether_received() {
    int matched = 0;
    if (!progress::may_poll() || real::Test(&request_, &matched, MPI_STATUS_IGNORE) != MPI_SUCCESS || matched == 0)
        return false;
    send_control(to_, {.type = MessageType::kAsk, .id = id_});
    return true;
}

bool Send::step() {
    if (request_ != MPI_REQUEST_NULL)
        return ask_whether_received();
    if (!transfer_.begun())
        return false;
    const bool moved = transfer_.step();
    if (!transfer_.under_way())
        end(transfer_.failure());
    return moved;
}

std::string Send::describe() const {
    const char* state = !transfer_.begun()              ? "no receive has taken it"
                        : cleared_->how == How::kStaged ? "its transfer through host memory has not ended"
                        : cleared_->how == How::kMapped ? "its transfer through the receiver's memory has not ended"
                                                        : "its transfer over NCCL has not ended";
    return fmt::format("{}: {}", sent_as(*this, payload_.bytes, dest_, tag_), state);
}

report::trace::ArrowEnd Send::arrow() const {
    return {id_, static_cast<std::uint32_t>(own_rank()), true};
}

void Send::end(const std::string& failure) {
    if (transfer_.abandoned())
        progress::keep_for_ever(std::pair(payload_, owner_));
    if (!failure.empty()) {
        tell_failed(to_, 0, cleared_ ? cleared_->slot : 0, failure);
        fail_with(failure);
        return;
    }
    leave_send(id_);
    pack::Packed::take_back(payload_);
    record_.close(payload_.bytes, [this] { return arrow(); });
    finish({});
}

void Send::fail_with(const std::string& why) {
    leave_send(id_);
    pack::Packed::take_back(payload_);
    fail(MPI_ERR_OTHER, fmt::format("{}: {}", sent_as(*this, payload_.bytes, dest_, tag_), why));
}

void Send::failed(const std::string& why) {
    give_up("the receiver failed: " + why);
}

void Send::end_if_lost() {
    if (const std::string why = what_is_lost(comm(), to_, dest_); !why.empty())
        give_up(why);
}

void Send::give_up(const std::string& why) {
    if (transfer_.under_way())
        transfer_.give_up(why);
    else if (!done())
        fail_with(why);
}

void Send::copied(const std::string& failure) {
    record_.route(Carrier::kPeer, Reason::kNone, payload_.bytes);
    cleared_.emplace();
    leave_send(id_);
    if (failure.empty()) {
        record_.close(payload_.bytes, [this] { return arrow(); });
        finish({});
    } else {
        fail(MPI_ERR_OTHER, fmt::format("{}: {}", sent_as(*this, payload_.bytes, dest_, tag_), failure));
    }
}

const call::EnvelopeBytes& Send::give_to(std::uint64_t slot) {
    known_ = true;
    given_to_ = slot;
    return envelope_;
}

void Send::release() {
    leave_send(id_);
    pack::Packed::take_back(payload_);
    if (synchronous_)
        record_.close(payload_.bytes, [this] { return arrow(); });
    else
        record_.close(0);
    finish({});
}

EagerSend::~EagerSend() {
    if (request_ != MPI_REQUEST_NULL)
        real::Request_free(&request_);
}

int EagerSend::post(Mode mode, const void* data, MPI_Count count, MPI_Datatype type, int dest, int tag) {
    dest_ = dest;
    tag_ = tag;
    record_.is_message(dest, tag);
    const call::Counted counted(count, type);
    return real_isend(mode, data, counted.count(), counted.type(), dest, tag, comm(), &request_);
}

std::string EagerSend::describe() const {
    return sent_as(*this, bytes_, dest_, tag_) + ": MPI has not sent it";
}

void EagerSend::limit_time() {
    deadline_.emplace(settings::values().timeout);
}

bool EagerSend::step() {
    if (!progress::may_poll())
        return false;
    int error = MPI_SUCCESS;
    MPI_Status status;
    if (!request::has_ended(request_, owner(), status, error)) {
        if (!deadline_ || !deadline_->passed())
            return false;
        progress::keep_until(std::exchange(request_, MPI_REQUEST_NULL),
                             std::make_shared<BounceBuffer>(std::move(copy_)));
        fail(MPI_ERR_OTHER,
             fmt::format("{}: {} and the message has not been taken. Its receiver is of a job that was started apart: "
                         "it has not come to its receive, or is gone",
                         sent_as(*this, bytes_, dest_, tag_), deadline_->why()));
        return true;
    }
    if (error == MPI_SUCCESS) {
        record_.close(bytes_);
        finish({});
        return true;
    }
    int mpi_class = MPI_ERR_OTHER;
    real::Error_class(error, &mpi_class);
    fail(mpi_class, sent_as(*this, bytes_, dest_, tag_) + ": MPI could not send the message");
    return true;
}

}  // namespace swy::p2p
