#include "p2p/send.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carrier/staged/pipeline.hpp"
#include "p2p/counted.hpp"
#include "p2p/exchange.hpp"
#include "p2p/lanes.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "settings/settings.hpp"

namespace swy::p2p {
namespace {

constexpr const char* kTakenForAnother =
    "it was taken for the message of another receive with this tag, which shared its buffer with more receives: give "
    "each pending receive memory of its own";

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

Send::Send(CallId call, MPI_Comm comm, Payload payload, int dest, int tag)
    : Operation(call, comm), payload_(std::move(payload)), dest_(dest), tag_(tag) {}

// One that is done has left, and may be destroyed by a thread that does not hold the engine's lock.
Send::~Send() {
    if (!done())
        leave_send(id_);
}

int Send::post(Mode mode, comm::State& state, int to) {
    to_ = to;
    id_ = enter(this);
    Envelope envelope;
    envelope.id = id_;
    envelope.bytes = payload_.bytes;
    envelope.sender = static_cast<std::uint32_t>(own_rank());
    envelope.contiguous = payload_.contiguous;
    envelope.several = !payload_.runs.empty();
    lanes::describe(payload_, to, &state, envelope);
    envelope_ = write(envelope, secret());
    // The send's own progress: the receiver answers when the envelope has been matched, so a synchronous send needs no
    // more than that, and the standard mode will do for its envelope.
    const Mode as = mode == Mode::kReady ? Mode::kReady : Mode::kStandard;
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = real_isend(as, envelope_.data(), kEnvelopeBytes, MPI_BYTE, dest_, tag_, comm(), &request);
    // The bytes stay until the receiver has answered, and so has had them.
    if (rc == MPI_SUCCESS)
        real::Request_free(&request);
    return rc;
}

void Send::clear(int from, const Control& control) {
    if (transfer_ != nullptr || done())
        return;
    known_ = true;
    if (given_to_ != 0 && control.slot != given_to_) {
        tell_failed(from, 0, control.slot, kTakenForAnother);
        return;
    }
    lanes::take_offer(control, from, payload_);
    if (control.how == How::kNothing) {
        release();
        return;
    }
    if (control.how == How::kParent) {
        Control answer{.word = Word::kAnswer, .how = control.how, .slot = control.slot, .lane = control.lane};
        answer.flag = lanes::reserve(control, from) ? 1 : 0;
        send_control(from, answer);
        if (answer.flag == 0)
            return;  // the receiver chooses again
    }
    cleared_ = control;
    std::string why;
    if (control.how == How::kStaged)
        transfer_ = carrier::staged::send_chunks(payload_, control.bytes, {chunks(), from, chunk_tag(control.slot)});
    else
        transfer_ = lanes::send(control, from, payload_, why);
    ledger_.route(control.how == How::kStaged ? Carrier::kStaged : Carrier::kNccl, control.reason);
    deadline_.emplace(settings::values().timeout);
    if (transfer_ == nullptr)
        end(why);
}

bool Send::step() {
    if (transfer_ == nullptr)
        return false;
    if (!transfer_->done() && deadline_->passed()) {
        deadline_.emplace(0);
        transfer_->give_up("SWITCHYARD_TIMEOUT has passed: both ranks were ready, the transfer did not finish");
    }
    const bool moved = !transfer_->done() && transfer_->step();
    if (transfer_->done())
        end(transfer_->failure());
    return moved;
}

void Send::end(const std::string& failure) {
    leave_send(id_);
    if (failure.empty()) {
        ledger_.close(call(), payload_.bytes);
        finish({});
        return;
    }
    tell_failed(to_, 0, cleared_ ? cleared_->slot : 0, failure);
    fail(MPI_ERR_OTHER,
         fmt::format("{} of {} bytes to rank {}, tag {}: {}", name(call()), payload_.bytes, dest_, tag_, failure));
}

void Send::failed(const std::string& why) {
    const std::string text = "the receiver failed: " + why;
    if (transfer_ != nullptr && !transfer_->done())
        transfer_->give_up(text);
    else if (!done()) {
        leave_send(id_);
        fail(MPI_ERR_OTHER,
             fmt::format("{} of {} bytes to rank {}, tag {}: {}", name(call()), payload_.bytes, dest_, tag_, text));
    }
}

void Send::copied(const std::string& failure) {
    ledger_.route(Carrier::kPeer, Reason::kNone);
    cleared_.emplace();
    leave_send(id_);
    if (failure.empty()) {
        ledger_.close(call(), payload_.bytes);
        finish({});
    } else {
        fail(MPI_ERR_OTHER, fmt::format("{} of {} bytes to rank {} (this process), tag {}: {}", name(call()),
                                        payload_.bytes, dest_, tag_, failure));
    }
}

bool Send::begins(int to, int tag, std::span<const std::byte> bytes) const {
    return is_unknown_to(to, tag) && std::equal(bytes.begin(), bytes.end(), envelope_.begin());
}

const EnvelopeBytes& Send::give_to(std::uint64_t slot) {
    known_ = true;
    given_to_ = slot;
    return envelope_;
}

void Send::release() {
    leave_send(id_);
    ledger_.close(call(), 0);
    finish({});
}

PlainSend::~PlainSend() {
    if (request_ != MPI_REQUEST_NULL)
        real::Request_free(&request_);
}

int PlainSend::post(Mode mode, const void* data, MPI_Count count, MPI_Datatype type, int dest, int tag) {
    const Counted counted(count, type);
    return real_isend(mode, data, counted.count(), counted.type(), dest, tag, comm(), &request_);
}

void PlainSend::limit_time(int dest, int tag) {
    dest_ = dest;
    tag_ = tag;
    deadline_.emplace(settings::values().timeout);
}

bool PlainSend::step() {
    if (!request::may_ask())
        return false;
    int left = 0;
    MPI_Status status;
    status.MPI_ERROR = MPI_SUCCESS;
    const int rc = real::Request_get_status(request_, &left, &status);
    if (rc == MPI_SUCCESS && !left) {
        if (!deadline_ || !deadline_->passed())
            return false;
        Landing::leave(std::move(copy_), std::exchange(request_, MPI_REQUEST_NULL));
        fail(MPI_ERR_OTHER, fmt::format("{} of {} bytes to rank {}, tag {}: SWITCHYARD_TIMEOUT has passed and the "
                                        "message has not been taken. Its receiver is of a job that was started apart: "
                                        "it has not come to its receive, or is gone",
                                        name(call()), bytes_, dest_, tag_));
        return true;
    }
    real::Request_free(&request_);
    const int error = rc != MPI_SUCCESS ? rc : status.MPI_ERROR;
    if (error == MPI_SUCCESS) {
        ledger_.close(call(), bytes_);
        finish({});
        return true;
    }
    int mpi_class = MPI_ERR_OTHER;
    real::Error_class(error, &mpi_class);
    fail(mpi_class, fmt::format("{}: MPI could not send the message", name(call())));
    return true;
}

}  // namespace swy::p2p
