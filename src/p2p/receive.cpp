#include "p2p/receive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carrier/staged/pipeline.hpp"
#include "comm/world.hpp"
#include "datatype/prefix.hpp"
#include "p2p/counted.hpp"
#include "p2p/exchange.hpp"
#include "p2p/lanes.hpp"
#include "p2p/plain.hpp"
#include "p2p/send.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "settings/settings.hpp"

namespace swy::p2p {
namespace {

// Null for a matched receive whose communicator is not known, and for one that the program has freed since (MPI
// 4.0 section 7.4.3: what is pending completes all the same).
comm::State* state_of(MPI_Comm comm) {
    return comm != MPI_COMM_NULL && comm::lives(comm) ? comm::of(comm) : nullptr;
}

std::string describe(const Receive& receive, int source, int tag, std::size_t bytes) {
    return fmt::format("{} of {} bytes from rank {}, tag {}", name(receive.call()), bytes, source, tag);
}

}  // namespace

std::optional<Envelope> envelope_in(const datatype::Layout* layout, const void* address, std::size_t count) {
    EnvelopeBytes bytes;
    if (layout == nullptr)
        std::memcpy(bytes.data(), address, bytes.size());
    else if (datatype::first_bytes(*layout, address, count, bytes) != bytes.size())
        return std::nullopt;
    return read(bytes, secret());
}

std::optional<Envelope> take_envelope(const datatype::Layout* layout, void* address, std::size_t count) {
    constexpr std::size_t kBeforeFields = kNamingBytes + sizeof(Secret);
    const std::optional<Envelope> envelope = envelope_in(layout, address, count);
    if (envelope && layout == nullptr)
        std::memset(address, 0, kBeforeFields);
    else if (envelope)
        datatype::clear_first_bytes(*layout, address, count, kBeforeFields);
    return envelope;
}

void release_sender(comm::State& state, int source, int tag, std::span<const std::byte> begin) {
    Control release{.word = Word::kRelease, .tag = tag, .bytes = std::min(begin.size(), kEnvelopeBytes)};
    std::memcpy(release.unique.data(), begin.data(), release.bytes);
    send_control(comm::world_rank(state, source), release);
}

// One that is done has left, and may be destroyed by a thread that does not hold the engine's lock.
Receive::~Receive() {
    if (!done())
        leave_receive(slot_);
    if (request_ != MPI_REQUEST_NULL)
        real::Request_free(&request_);
}

bool Receive::may_wait_in_buffer() {
    if (payload_.device)
        return false;
    return payload_.bytes == 0 || occupation_.enter_to_wait(payload_.first_byte(), *this);
}

// Of a receive whose first message has come elsewhere.
void Receive::enter_buffer() {
    if (!payload_.device && payload_.bytes != 0 && !occupation_.entered())
        occupation_.enter(payload_.first_byte());
}

// The buffer that MPI gets: the program's host memory as the program has described it, or bytes of ours.
void* Receive::landing(MPI_Count& count, MPI_Datatype& type, const Into& into) {
    count = into.count;
    type = into.type;
    lands_ = !may_wait_in_buffer();
    if (!lands_)
        return payload_.address;
    count = 1;
    return landing_.acquire_to_receive(payload_.where.context, payload_.bytes, type) == MPI_SUCCESS ? landing_.data()
                                                                                                    : nullptr;
}

void Receive::comes_from_afar() {
    from_afar_ = true;
    if (payload_.device && payload_.bytes >= limit)
        deadline_.emplace(settings::values().timeout);
}

int Receive::post(const Into& into, int source, int tag) {
    tag_ = tag;
    source_ = source;
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    void* buffer = landing(count, type, into);
    if (lands_ && buffer == nullptr) {
        fail(MPI_ERR_NO_MEM, fmt::format("{}: no host memory for {} bytes", name(call()), payload_.bytes));
        return MPI_SUCCESS;
    }
    const Counted counted(count, type);
    return real::Irecv(buffer, counted.count(), counted.type(), source, tag, comm(), &request_);
}

int Receive::post(const Into& into, MPI_Message& message) {
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    void* buffer = landing(count, type, into);
    if (lands_ && buffer == nullptr) {
        fail(MPI_ERR_NO_MEM, fmt::format("{}: no host memory for {} bytes", name(call()), payload_.bytes));
        return MPI_SUCCESS;
    }
    const Counted counted(count, type);
    return real::Imrecv(buffer, counted.count(), counted.type(), &message, &request_);
}

int Receive::post(const Into& into, Taken taken) {
    source_ = taken.source;
    tag_ = taken.tag;
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

void Receive::adopt(const Envelope& envelope, const MPI_Status& status) {
    source_ = status.MPI_SOURCE;
    tag_ = status.MPI_TAG;
    matched(envelope);
}

bool Receive::step() {
    if (request_ != MPI_REQUEST_NULL)
        return look();
    if (choosing_)
        choose();
    if (transfer_ == nullptr)
        return false;
    if (!transfer_->done() && deadline_->passed()) {
        deadline_.emplace(0);
        transfer_->give_up("SWITCHYARD_TIMEOUT has passed: both ranks were ready, the transfer did not finish");
    }
    if (copying_)
        if (Receive* other = occupation_.who_reads())
            other->ask();
    const bool moved = !transfer_->done() && transfer_->step();
    if (transfer_->done())
        transferred();
    return moved;
}

void Receive::cancel() {
    // What MPI has matched it does not cancel; what it does cancel, look() finds.
    if (request_ != MPI_REQUEST_NULL)
        real::Cancel(&request_);
}

bool Receive::look() {
    return request::may_ask() && ask();
}

// Has MPI received? Asked in the one way that raises no error inside MPI's progress: what is wrong is found out here
// and raised where the program completes its request.
bool Receive::ask() {
    int there = 0;
    MPI_Status status;
    status.MPI_ERROR = MPI_SUCCESS;
    const int rc = real::Request_get_status(request_, &there, &status);
    if (rc == MPI_SUCCESS && !there)
        return overdue();
    real::Request_free(&request_);
    lost_ = occupation_.content_is_lost();
    occupation_.has_read();
    if (rc != MPI_SUCCESS) {
        int mpi_class = MPI_ERR_OTHER;
        real::Error_class(rc, &mpi_class);
        fail(mpi_class, fmt::format("{}: MPI could not receive the message", name(call())));
        return true;
    }
    arrived(status);
    return true;
}

// MPI may have matched it, and is then not done with the memory.
bool Receive::overdue() {
    if (!deadline_ || !deadline_->passed())
        return false;
    real::Cancel(&request_);
    Landing::leave(std::move(landing_), std::exchange(request_, MPI_REQUEST_NULL));
    const std::string from = source_ == MPI_ANY_SOURCE ? "any rank" : fmt::format("rank {}", source_);
    fail(MPI_ERR_OTHER,
         fmt::format("{} of up to {} bytes from {}: SWITCHYARD_TIMEOUT has passed and no message has come "
                     "whole. The sender is of a job that was started apart: it has not come to its send, "
                     "or is gone",
                     name(call()), payload_.bytes, from));
    return true;
}

void Receive::arrived(const MPI_Status& status) {
    int cancelled = 0;
    real::Test_cancelled(&status, &cancelled);
    if (cancelled) {
        request::Outcome outcome;
        outcome.cancelled = true;
        finish(std::move(outcome));
        return;
    }
    source_ = status.MPI_SOURCE;
    tag_ = status.MPI_TAG;
    const std::size_t bytes = status._ucount;
    void* buffer = lands_ ? landing_.data() : payload_.address;
    if (bytes == kEnvelopeBytes && envelopes && lost_) {
        if (ask_sender())
            return;
    } else if (bytes == kEnvelopeBytes && envelopes) {
        // Landed bytes are packed already.
        const datatype::Layout* layout = lands_ || payload_.contiguous ? nullptr : payload_.layout.get();
        void* first = lands_ ? buffer : payload_.contiguous ? payload_.data : buffer;
        if (payload_.bytes < bytes) {
            if (comm::State* state = state_of(comm())) {
                std::vector<std::byte> begin(payload_.bytes);
                if (layout != nullptr)
                    datatype::first_bytes(*layout, first, payload_.count, begin);
                else
                    std::copy_n(static_cast<const std::byte*>(first), begin.size(), begin.begin());
                release_sender(*state, source_, tag_, begin);
            }
        } else if (const auto envelope = take_envelope(layout, first, payload_.count)) {
            landing_.touched(bytes);
            matched(*envelope);
            return;
        }
    }
    if (bytes > payload_.bytes)
        truncated(bytes);
    else if (status.MPI_ERROR != MPI_SUCCESS) {
        int mpi_class = MPI_ERR_OTHER;
        real::Error_class(status.MPI_ERROR, &mpi_class);
        fail(mpi_class, fmt::format("{}: MPI could not receive the message", describe(*this, source_, tag_, bytes)));
    } else
        ordinary(bytes);
}

// Which message it was. False where it cannot have been an envelope.
bool Receive::ask_sender() {
    comm::State* state = state_of(comm());
    const int sender = state != nullptr ? comm::world_rank(*state, source_) : -1;
    if (sender < 0)
        return false;
    if (payload_.bytes < kEnvelopeBytes) {
        release_sender(*state, source_, tag_, {});
        return false;
    }
    slot_ = enter(this);
    send_control(sender, {.word = Word::kWhich, .tag = tag_, .slot = slot_});
    return true;
}

void Receive::was(const std::optional<Envelope>& envelope) {
    if (done() || envelope_)
        return;
    if (envelope)
        matched(*envelope);
    else
        ordinary(kEnvelopeBytes);
}

void Receive::ordinary(std::size_t bytes) {
    bytes_ = bytes;
    if (!lands_ || bytes == 0) {
        end({});
        return;
    }
    landing_.touched(bytes);
    if (payload_.device)
        ledger_.route(Carrier::kStaged, bytes < limit ? Reason::kSmall
                                        : from_afar_  ? Reason::kForeign
                                                      : Reason::kMixed);
    begin_copy(landing_.data(), landing_.page_locked());
}

void Receive::matched(const Envelope& envelope) {
    envelope_ = envelope;
    bytes_ = envelope.bytes;
    clear_ = {.word = Word::kClear, .id = envelope.id, .bytes = envelope.bytes};
    if (!payload_.device)
        Occupation::beware();
    if (envelope.bytes > payload_.bytes) {
        clear_.slot = slot_;
        clear_.how = How::kNothing;
        send_control(static_cast<int>(envelope.sender), clear_);
        truncated(envelope.bytes);
        return;
    }
    if (slot_ == 0)
        slot_ = enter(this);
    clear_.slot = slot_;
    choose();
}

void Receive::choose() {
    const int from = static_cast<int>(envelope_->sender);
    choosing_ = !lanes::choose(*envelope_, payload_, state_of(comm()), clear_);
    if (choosing_)
        return;  // asked again in the next step
    if (clear_.how == How::kCopy) {
        Send* send = find_send(envelope_->id);
        if (send != nullptr && send->payload().all_on_devices()) {
            ledger_.route(Carrier::kPeer, Reason::kNone);
            begin(carrier::staged::copy(payload_, send->payload(), bytes_), {});
            return;
        }
        clear_.how = How::kStaged;
        clear_.reason = Reason::kMixed;
    }
    send_control(from, clear_);
    std::string why;
    switch (clear_.how) {
        case How::kParent:
            return;  // until the sender has answered
        case How::kLane:
            ledger_.route(Carrier::kNccl, Reason::kNone);
            begin(lanes::receive(clear_, from, payload_, why), why);
            return;
        default:
            ledger_.route(Carrier::kStaged, clear_.reason);
            begin_chunks();
    }
}

void Receive::begin_chunks() {
    enter_buffer();
    aside_ = stays_aside();
    Payload aside;
    aside.contiguous = true;
    aside.data = landing_.data();
    begin(carrier::staged::receive_chunks(aside_ ? aside : payload_, bytes_,
                                          {chunks(), static_cast<int>(envelope_->sender), chunk_tag(slot_)}),
          {});
}

// May MPI not write into the buffer at any time, for another receive waits there?
bool Receive::stays_aside() {
    return occupation_.who_reads() != nullptr && (landing_.data() != nullptr || landing_.acquire(nullptr, bytes_));
}

void Receive::begin_copy(const std::byte* packed, bool page_locked) {
    copying_ = true;
    begin(carrier::staged::unpack(payload_, bytes_, packed, page_locked), {});
}

void Receive::transferred() {
    if (!aside_ || !transfer_->failure().empty()) {
        end(transfer_->failure());
        return;
    }
    aside_ = false;
    landing_.touched(bytes_);
    begin_copy(landing_.data(), landing_.page_locked());
}

void Receive::answer(bool yes) {
    if (clear_.how != How::kParent || transfer_ != nullptr || done())
        return;
    if (!yes) {
        choose();
        return;
    }
    std::string why;
    ledger_.route(Carrier::kNccl, Reason::kNone);
    begin(lanes::receive(clear_, static_cast<int>(envelope_->sender), payload_, why), why);
}

void Receive::begin(std::unique_ptr<Transfer> transfer, const std::string& why) {
    transfer_ = std::move(transfer);
    deadline_.emplace(settings::values().timeout);
    if (transfer_ == nullptr)
        end(why);
}

void Receive::truncated(std::size_t bytes) {
    leave_receive(slot_);
    request::Outcome outcome;
    outcome.source = source_;
    outcome.tag = tag_;
    outcome.bytes = bytes;
    outcome.mpi_class = MPI_ERR_TRUNCATE;
    outcome.text = fmt::format("{}: the message has {} bytes, the receive buffer holds {}: receive with a larger count",
                               describe(*this, source_, tag_, bytes), bytes, payload_.bytes);
    finish(std::move(outcome));
}

void Receive::end(const std::string& failure) {
    leave_receive(slot_);
    if (clear_.how == How::kCopy)
        if (Send* send = find_send(envelope_->id))
            send->copied(failure);
    if (failure.empty()) {
        ledger_.close(call(), bytes_);
        request::Outcome outcome;
        outcome.source = source_;
        outcome.tag = tag_;
        outcome.bytes = bytes_;
        finish(std::move(outcome));
        return;
    }
    if (envelope_ && clear_.how != How::kCopy)
        tell_failed(static_cast<int>(envelope_->sender), envelope_->id, 0, failure);
    fail(MPI_ERR_OTHER, fmt::format("{}: {}", describe(*this, source_, tag_, bytes_), failure));
}

void Receive::failed(const std::string& why) {
    const std::string text = "the sender failed: " + why;
    if (transfer_ != nullptr && !transfer_->done())
        transfer_->give_up(text);
    else if (!done()) {
        if (clear_.how == How::kParent && !choosing_)
            lanes::withdraw(clear_);
        choosing_ = false;
        leave_receive(slot_);
        fail(MPI_ERR_OTHER, fmt::format("{}: {}", describe(*this, source_, tag_, bytes_), text));
    }
}

}  // namespace swy::p2p
