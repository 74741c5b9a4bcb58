// One rank's end of the connection to one peer: frames on a channel, the matching of the two ranks' calls, and the
// bytes that follow a match. Driven by the executor, by one thread at a time.
//
// Each side announces its call. Payload is sent only when the peer has announced the matching call (VGPU_NCCL_BUFFER
// lets small sends leave before), so a send waits for its receive, and calls that do not match wait for ever, as on
// GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vgpu/nccl/call.hpp"
#include "vgpu/nccl/channel.hpp"
#include "vgpu/nccl/exchange.hpp"

namespace vgpu::nccl {

enum class Frame : std::uint32_t {
    Call = 1,     // a Call, and the payload where the send is eager
    Data = 2,     // payload of the matched exchanges, in the sender's order
    Probe = 3,    // see deadlock.hpp
    Failure = 4,  // text: the sender has found a mismatch
    Goodbye = 5   // see transport_tcp.hpp
};

struct Announced {
    Call call;
    std::string payload;  // of an eager send
};

// A frame that the link passes on without interpreting it.
struct Message {
    Frame frame;
    std::string body;
};

class Link {
  public:
    explicit Link(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

    // Announces the exchange and takes part in it until it is done. `exchange` must stay where it is until clear().
    void begin(Exchange& exchange, bool strict, std::size_t buffer);
    // Forgets the operation's exchanges.
    void clear();

    // Receives and sends what is possible now; true when a call arrived or payload moved. Other frames are appended
    // to `messages` and count as no movement: else a search for a deadlock would keep itself from beginning.
    bool step(std::vector<Message>& messages);

    void send_message(Frame frame, const std::string& body);
    void say_goodbye();

    bool done() const;
    bool flushed() const { return control_.empty(); }
    bool broken() const { return channel_->broken(); }
    // A call of the peer that no exchange here answers, on which the peer waits; null when there is none.
    const Call* unanswered() const;

  private:
    enum class Side { Collective, Send, Recv };
    static Side side_of(const Call& call);
    static Side answer_to(Side side);

    void match();
    bool match_one(Exchange& exchange);
    void add_announced(const std::string& body);
    bool receive(std::vector<Message>& messages);
    bool receive_data(std::span<const std::byte> bytes, std::size_t& taken);
    bool send();
    bool next_data_frame();
    void put_frame(Frame frame, const std::string& body);
    Exchange* sending();
    Exchange* receiving();

    std::unique_ptr<Channel> channel_;
    bool strict_ = false;
    std::vector<Exchange*> active_;
    std::deque<Announced> announced_;
    std::deque<Call> left_behind_;  // eager sends whose receive the peer has not announced

    std::string control_;        // frames, or parts of them, that the channel had no room for
    std::size_t data_left_ = 0;  // of the data frame being sent
    std::size_t pad_left_ = 0;

    std::string head_;  // of the frame being received
    std::string body_;
    std::size_t in_left_ = 0;
    std::size_t in_pad_ = 0;
};

}  // namespace vgpu::nccl
