#include "vgpu/nccl/link.hpp"

#include <algorithm>
#include <cstring>

#include "vgpu/nccl/transport_tcp.hpp"

namespace vgpu::nccl {
namespace {

constexpr std::size_t kLargestFrame = 32 << 10;

struct FrameHead {
    Frame frame;
    std::uint32_t bytes;
};

std::size_t padding(std::size_t bytes) {
    return (kFrameAlignment - bytes % kFrameAlignment) % kFrameAlignment;
}

}  // namespace

Link::Side Link::side_of(const Call& call) {
    return call.kind == Kind::Send ? Side::Send : call.kind == Kind::Recv ? Side::Recv : Side::Collective;
}

Link::Side Link::answer_to(Side side) {
    return side == Side::Send ? Side::Recv : side == Side::Recv ? Side::Send : Side::Collective;
}

void Link::put_frame(Frame frame, const std::string& body) {
    const FrameHead head{frame, static_cast<std::uint32_t>(body.size())};
    control_.append(reinterpret_cast<const char*>(&head), sizeof head);
    control_ += body;
    control_.append(padding(body.size()), '\0');
}

void Link::send_message(Frame frame, const std::string& body) {
    // Within an unfinished data frame no other may begin; where the operation has been given up, none ever can.
    if (data_left_ + pad_left_ == 0)
        put_frame(frame, body);
}

void Link::say_goodbye() {
    send_message(Frame::Goodbye, std::string(reinterpret_cast<const char*>(&kGoodbye[1]), 2 * sizeof kGoodbye[1]));
    send();
    channel_->notify();
}

void Link::begin(Exchange& exchange, bool strict, std::size_t buffer) {
    strict_ = strict;
    std::size_t waiting = exchange.mine.count * size_of(static_cast<ncclDataType_t>(exchange.mine.type));
    const std::size_t bytes = waiting;
    for (const Call& call : left_behind_)
        waiting += call.count * size_of(static_cast<ncclDataType_t>(call.type));
    const bool awaited = std::any_of(announced_.begin(), announced_.end(), [&](const Announced& announced) {
        return announced.call.comm == exchange.mine.comm && announced.call.kind == Kind::Recv;
    });
    const bool eager = exchange.mine.kind == Kind::Send && buffer > 0 && waiting <= buffer && !awaited;
    exchange.mine.eager = eager ? 1 : 0;
    std::string body(reinterpret_cast<const char*>(&exchange.mine), sizeof exchange.mine);
    if (eager) {
        if (!exchange.out.empty())
            body.append(reinterpret_cast<const char*>(exchange.out[0].data), bytes);
        left_behind_.push_back(exchange.mine);
        exchange.matched = true;
        exchange.out_at = exchange.out.size();
    }
    put_frame(Frame::Call, body);
    active_.push_back(&exchange);
    match();
}

void Link::clear() {
    active_.clear();
}

bool Link::done() const {
    return control_.empty() && data_left_ + pad_left_ == 0 &&
           std::all_of(active_.begin(), active_.end(), [](const Exchange* e) { return e->done(); });
}

const Call* Link::unanswered() const {
    const auto waits = [](const Announced& announced) { return announced.call.eager == 0; };
    const auto found = std::find_if(announced_.begin(), announced_.end(), waits);
    return found == announced_.end() ? nullptr : &found->call;
}

void Link::match() {
    // In order: a call is answered before a later one on the same side.
    bool stuck[3] = {};
    for (Exchange* exchange : active_) {
        bool& side_stuck = stuck[static_cast<int>(side_of(exchange->mine))];
        if (!exchange->matched && !side_stuck)
            side_stuck = !match_one(*exchange);
    }
}

bool Link::match_one(Exchange& exchange) {
    const Side wanted = answer_to(side_of(exchange.mine));
    const auto found = std::find_if(announced_.begin(), announced_.end(), [&](const Announced& announced) {
        return announced.call.comm == exchange.mine.comm && side_of(announced.call) == wanted;
    });
    if (found == announced_.end())
        return false;
    if (compare(exchange.mine, found->call, strict_) == Fit::Differs) {
        exchange.conflict = found->call;
        return false;
    }
    exchange.matched = true;
    if (found->call.eager != 0) {
        if (!exchange.in.empty())
            std::memcpy(exchange.in[0].data, found->payload.data(), found->payload.size());
        exchange.in_at = exchange.in.size();
    }
    announced_.erase(found);
    return true;
}

void Link::add_announced(const std::string& body) {
    Announced announced;
    std::memcpy(&announced.call, body.data(), sizeof announced.call);
    announced.payload = body.substr(sizeof announced.call);
    if (announced.call.kind == Kind::Recv) {
        const auto sent = std::find_if(left_behind_.begin(), left_behind_.end(),
                                       [&](const Call& call) { return call.comm == announced.call.comm; });
        if (sent != left_behind_.end()) {
            left_behind_.erase(sent);  // the receiver compares the two
            return;
        }
    }
    announced_.push_back(std::move(announced));
    match();
}

Exchange* Link::receiving() {
    for (Exchange* exchange : active_)
        if (exchange->matched && exchange->in_at < exchange->in.size())
            return exchange;
    return nullptr;
}

Exchange* Link::sending() {
    for (Exchange* exchange : active_)
        if (exchange->out_at < exchange->out.size())
            return exchange->matched ? exchange : nullptr;
    return nullptr;
}

bool Link::receive_data(std::span<const std::byte> bytes, std::size_t& taken) {
    Exchange* exchange = receiving();
    if (exchange == nullptr)
        return false;
    Incoming& in = exchange->in[exchange->in_at];
    const auto part = bytes.first(std::min({bytes.size(), in_left_, in.bytes - in.received}));
    if (in.reducer != nullptr) {
        taken = in.reducer->take(in.source, part);
    } else {
        std::memcpy(in.data + in.received, part.data(), part.size());
        taken = part.size();
    }
    in.received += taken;
    if (in.received == in.bytes)
        ++exchange->in_at;
    return taken > 0;
}

bool Link::receive(std::vector<Message>& messages) {
    bool moved = false;
    while (true) {
        const auto bytes = channel_->peek();
        if (bytes.empty())
            return moved;
        std::size_t taken = 0;
        if (head_.size() < sizeof(FrameHead)) {
            taken = std::min(bytes.size(), sizeof(FrameHead) - head_.size());
            head_.append(reinterpret_cast<const char*>(bytes.data()), taken);
            if (head_.size() == sizeof(FrameHead)) {
                FrameHead head;
                std::memcpy(&head, head_.data(), sizeof head);
                in_left_ = head.bytes;
                in_pad_ = padding(head.bytes);
                body_.clear();
            }
        } else if (in_left_ > 0) {
            FrameHead head;
            std::memcpy(&head, head_.data(), sizeof head);
            if (head.frame == Frame::Data) {
                if (!receive_data(bytes, taken))
                    return moved;
                moved = true;
            } else {
                taken = std::min(bytes.size(), in_left_);
                body_.append(reinterpret_cast<const char*>(bytes.data()), taken);
            }
            in_left_ -= taken;
        } else {
            taken = std::min(bytes.size(), in_pad_);
            in_pad_ -= taken;
        }
        channel_->consume(taken);
        if (head_.size() == sizeof(FrameHead) && in_left_ + in_pad_ == 0) {
            FrameHead head;
            std::memcpy(&head, head_.data(), sizeof head);
            head_.clear();
            if (head.frame == Frame::Call) {
                add_announced(body_);
                moved = true;
            } else if (head.frame != Frame::Data) {
                messages.push_back({head.frame, body_});
            }
        }
    }
}

// Begins a data frame with what the exchange that is next has ready; false when it has nothing.
bool Link::next_data_frame() {
    Exchange* exchange = sending();
    if (exchange == nullptr)
        return false;
    const Outgoing& out = exchange->out[exchange->out_at];
    const std::size_t ready = out.ready == nullptr ? out.bytes : std::min(*out.ready, out.bytes);
    if (ready == out.sent)
        return false;
    data_left_ = std::min(kLargestFrame, ready - out.sent);
    pad_left_ = padding(data_left_);
    const FrameHead head{Frame::Data, static_cast<std::uint32_t>(data_left_)};
    control_.append(reinterpret_cast<const char*>(&head), sizeof head);
    return true;
}

bool Link::send() {
    bool moved = false;
    while (true) {
        if (!control_.empty()) {
            control_.erase(0, channel_->write(control_.data(), control_.size()));
            if (!control_.empty())
                return moved;
        }
        if (data_left_ > 0) {
            Exchange* exchange = sending();
            if (exchange == nullptr)
                return moved;
            Outgoing& out = exchange->out[exchange->out_at];
            const std::size_t written = channel_->write(out.data + out.sent, data_left_);
            out.sent += written;
            data_left_ -= written;
            if (out.sent == out.bytes)
                ++exchange->out_at;
            moved = moved || written > 0;
            if (data_left_ > 0)
                return moved;
        }
        if (pad_left_ > 0) {
            pad_left_ -= channel_->write("\0\0\0\0\0\0\0", pad_left_);
            if (pad_left_ > 0)
                return moved;
        }
        if (!next_data_frame())
            return moved;
    }
}

bool Link::step(std::vector<Message>& messages) {
    const bool received = receive(messages);
    const bool sent = send();
    channel_->notify();
    return received || sent;
}

}  // namespace vgpu::nccl
