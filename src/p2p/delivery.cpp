// What a receive does once its message is known: how the payload comes, and the receive's end.
#include <fmt/format.h>

#include <utility>

#include "comm/where.hpp"
#include "error/required.hpp"
#include "fastpath/message.hpp"
#include "p2p/mapped.hpp"
#include "p2p/pair_comms.hpp"
#include "p2p/receive.hpp"
#include "p2p/send.hpp"
#include "p2p/service.hpp"
#include "pack/packed.hpp"
#include "progress/keep_until.hpp"
#include "request/receive_buffers.hpp"
#include "staging/pipeline.hpp"

namespace swy::p2p {
namespace {

std::string received_as(const Receive& receive, int source, int tag, std::size_t bytes) {
    return fmt::format("{}: {} bytes from rank {}, tag {}", comm::where(receive.call(), receive.owner()), bytes, source,
                       tag);
}

// Called when an envelope has come to host memory.
void beware_of_shared_buffers() {
    request::buffers::beware();
    fastpath::watchable = fastpath::limit;
}

}  // namespace

comm::State* Receive::state() const {
    return comm() != MPI_COMM_NULL && comm::lives(comm()) ? comm::of(comm()) : nullptr;
}

void Receive::ordinary(std::size_t bytes) {
    bytes_ = bytes;
    if (!lands_ || bytes == 0) {
        end({});
        return;
    }
    bounce_.touched(bytes);
    if (payload_.device)
        record_.route(Carrier::kStaged,
                      bytes < fastpath::limit ? Reason::kSmall
                      : from_afar_            ? Reason::kSpansJobs
                                              : Reason::kMixed,
                      bytes);
    begin_copy(bounce_.data(), bounce_.page_locked());
}

void Receive::matched(const call::Envelope& envelope) {
    envelope_ = envelope;
    sender_ = static_cast<int>(envelope.sender);
    bytes_ = envelope.bytes;
    clear_ = {.type = MessageType::kClear, .id = envelope.id, .bytes = envelope.bytes};
    if (!payload_.device)
        beware_of_shared_buffers();
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
    if (envelope_->synchronous) {
        const auto payload = take_payload(*envelope_);
        choosing_ = !payload;
        if (choosing_)
            return;  // the next step tries again
        send_control(from, clear_);
        taken_.emplace().payload.assign(payload->begin(), payload->end());
        enter_buffer();
        begin_copy(taken_->payload.data(), false);
        return;
    }
    choosing_ = !pair_comms::choose(*envelope_, payload_, state(), clear_);
    if (choosing_)
        return;  // the next step tries again
    if (clear_.how == How::kCopy) {
        Send* send = find_send(envelope_->id);
        if (send != nullptr && send->payload().all_on_devices()) {
            record_.route(Carrier::kPeer, Reason::kNone, bytes_);
            begin(staging::copy(payload_, send->payload(), bytes_), {});
            return;
        }
        clear_.how = How::kStaged;
        clear_.reason = Reason::kMixed;
    }
    choosing_ = clear_.how == How::kStaged && !mapped::choose(*envelope_, payload_, clear_, block_, claim_);
    if (choosing_)
        return;
    std::string why = clear_.how == How::kStaged ? error::refusal(clear_.reason) : "";
    if (!why.empty())
        clear_.how = How::kRefused;
    send_control(from, clear_);
    switch (clear_.how) {
        case How::kRefused:
            end(why);
            return;
        case How::kParent:
        case How::kMapped:
            return;  // until the sender has answered
        case How::kPairComm:
            record_.route(Carrier::kNccl, Reason::kNone, bytes_);
            begin(pair_comms::receive(clear_, from, payload_, why), why);
            return;
        default:
            pack::Packed::take_back(payload_);
            record_.route(Carrier::kStaged, clear_.reason, bytes_);
            begin_chunks();
    }
}

void Receive::begin_chunks() {
    enter_buffer();
    aside_ = stays_aside();
    pack::Payload aside;
    aside.contiguous = true;
    aside.data = bounce_.data();
    begin(staging::receive_chunks(aside_ ? aside : payload_, bytes_,
                                  chunk_route(static_cast<int>(envelope_->sender), slot_)),
          {});
}

// Tells whether MPI must not write into the buffer at any time, because another receive waits there.
bool Receive::stays_aside() {
    return sharing_.who_reads() != nullptr && (bounce_.data() != nullptr || bounce_.acquire(nullptr, bytes_));
}

void Receive::begin_copy(const std::byte* packed, bool page_locked) {
    copying_ = true;
    begin(staging::unpack(payload_, bytes_, packed, page_locked), {});
}

void Receive::transferred() {
    if (!aside_ || !transfer_.failure().empty()) {
        if (transfer_.abandoned())
            progress::keep_for_ever(std::pair(payload_, std::move(bounce_)));
        end(transfer_.failure());
        return;
    }
    aside_ = false;
    bounce_.touched(bytes_);
    begin_copy(bounce_.data(), bounce_.page_locked());
}

void Receive::answer(bool yes) {
    const bool asked = clear_.how == How::kParent || clear_.how == How::kMapped;
    if (!asked || transfer_.begun() || done())
        return;
    if (!yes) {
        if (clear_.how == How::kMapped)
            mapped::refused(static_cast<int>(envelope_->sender));
        block_ = {};
        choose();
        return;
    }
    if (clear_.how == How::kMapped) {
        pack::Packed::take_back(payload_);
        record_.route(Carrier::kPeer, clear_.reason, bytes_);
        const staging::Route route = chunk_route(static_cast<int>(envelope_->sender), slot_);
        begin(staging::read_chunks(payload_, bytes_, route, std::move(block_)), {});
        return;
    }
    std::string why;
    record_.route(Carrier::kNccl, Reason::kNone, bytes_);
    begin(pair_comms::receive(clear_, static_cast<int>(envelope_->sender), payload_, why), why);
}

void Receive::begin(std::unique_ptr<staging::Transfer> transfer, const std::string& why) {
    transfer_.begin(std::move(transfer));
    if (!transfer_.begun())
        end(why);
}

void Receive::truncated(std::size_t bytes) {
    leave_receive(slot_);
    progress::Outcome outcome;
    outcome.source = source_;
    outcome.tag = tag_;
    outcome.bytes = bytes;
    outcome.mpi_class = MPI_ERR_TRUNCATE;
    outcome.text = fmt::format("{}: the receive buffer holds {}: receive with a larger count",
                               received_as(*this, source_, tag_, bytes), payload_.bytes);
    finish(std::move(outcome));
}

report::trace::ArrowEnd Receive::arrow() const {
    if (!envelope_)
        return {};
    return {envelope_->id, envelope_->sender, false};
}

void Receive::end(const std::string& failure) {
    leave_receive(slot_);
    claim_.reset();
    pack::Packed::take_back(payload_);
    if (clear_.how == How::kCopy)
        if (Send* send = find_send(envelope_->id))
            send->copied(failure);
    if (failure.empty()) {
        record_.close(bytes_, [this] { return arrow(); });
        progress::Outcome outcome;
        outcome.source = source_;
        outcome.tag = tag_;
        outcome.bytes = bytes_;
        finish(std::move(outcome));
        return;
    }
    if (envelope_ && clear_.how != How::kCopy && clear_.how != How::kRefused)
        tell_failed(static_cast<int>(envelope_->sender), envelope_->id, 0, failure);
    fail(MPI_ERR_OTHER, fmt::format("{}: {}", received_as(*this, source_, tag_, bytes_), failure));
}

void Receive::failed(const std::string& why) {
    give_up("the sender failed: " + why);
}

void Receive::end_if_lost() {
    if (const std::string why = what_is_lost(comm(), sender_, source_); !why.empty())
        give_up(why);
}

void Receive::give_up(const std::string& why) {
    if (transfer_.under_way())
        transfer_.give_up(why);
    else if (!done()) {
        if (clear_.how == How::kParent && !choosing_)
            pair_comms::withdraw(clear_);
        if (block_)  // the sender may be writing there
            progress::keep_for_ever(std::move(block_));
        choosing_ = false;
        claim_.reset();
        leave_receive(slot_);
        fail(MPI_ERR_OTHER, fmt::format("{}: {}", received_as(*this, source_, tag_, bytes_), why));
    }
}

}  // namespace swy::p2p
