// Sending in every mode.
#include <iterator>

#include "player.hpp"

namespace p2p_test {
namespace {

using Blocking = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm);
using Starting = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

struct Mode {
    const char* name;
    Blocking blocking;
    Starting starting;
    bool persistent, ready, buffered;
};
constexpr Mode kModes[] = {
    {"Send", MPI_Send, nullptr, false, false, false},
    {"Ssend", MPI_Ssend, nullptr, false, false, false},
    {"Rsend", MPI_Rsend, nullptr, false, true, false},
    {"Bsend", MPI_Bsend, nullptr, false, false, true},
    {"Isend", nullptr, MPI_Isend, false, false, false},
    {"Issend", nullptr, MPI_Issend, false, false, false},
    {"Irsend", nullptr, MPI_Irsend, false, true, false},
    {"Ibsend", nullptr, MPI_Ibsend, false, false, true},
    {"Send_init", nullptr, MPI_Send_init, true, false, false},
    {"Ssend_init", nullptr, MPI_Ssend_init, true, false, false},
    {"Rsend_init", nullptr, MPI_Rsend_init, true, true, false},
    {"Bsend_init", nullptr, MPI_Bsend_init, true, false, true},
};
constexpr int kMostBuffered = 200000;  // bytes: what MPI_Buffer_attach has been given is for all of a rank's rounds

const Mode& draw_mode(Dice& dice, bool may_block, bool receive_is_posted, bool may_buffer) {
    for (;;) {
        const Mode& mode = kModes[dice.below(static_cast<int>(std::size(kModes)))];
        if ((mode.starting != nullptr || may_block) && (!mode.ready || receive_is_posted) &&
            (!mode.buffered || may_buffer))
            return mode;
    }
}

}  // namespace

Sent& Player::prepare(const Message& message) {
    sent_.push_back(
        {&message,
         std::make_unique<Buffer>(dice_, gpus_, Buffer::End::kSent, message.base, message.elements, graph_.plain),
         {}});
    sent_.back().buffer->put(message.data(0));
    return sent_.back();
}

void Player::send(const Message& message, bool may_block) {
    Sent& sent = prepare(message);
    const Buffer& buffer = *sent.buffer;
    int bytes = 0;
    MPI_Type_size(message.base, &bytes);
    const bool posted = graph_.ready && graph_.style[static_cast<std::size_t>(message.to)] == Style::kUpfront;
    const Mode& mode =
        draw_mode(dice_, may_block, posted, message.elements * bytes <= kMostBuffered && dice_.one_in(2));
    const int to = stage_.rank_of(message.to);
    sent.how = std::string(mode.name) + " of " + describe(message) + " (" + buffer.what() + ")";
    say(sent.how);
    Open* one = nullptr;
    for (int time = 0; time < message.times; ++time) {
        if (time > 0) {
            if (one != nullptr)
                complete({one});
            sent.buffer->put(message.data(time));
            say(sent.how);
        }
        int code = MPI_SUCCESS;
        if (mode.blocking != nullptr) {
            code = mode.blocking(buffer.address(), buffer.count(), buffer.type(), to, message.tag, stage_.comm);
        } else if (!mode.persistent || time == 0) {
            one = &open(sent.how);
            one->needs_status = false;
            one->persistent = mode.persistent;
            code = mode.starting(buffer.address(), buffer.count(), buffer.type(), to, message.tag, stage_.comm,
                                 &one->request);
        }
        if (mode.persistent && code == MPI_SUCCESS) {
            one->done = false;
            code = dice_.one_in(2) ? MPI_Start(&one->request) : MPI_Startall(1, &one->request);
        }
        if (code != MPI_SUCCESS) {
            fail("the call returned " + std::to_string(code) + ": " + sent.how);
            if (one != nullptr)
                one->done = true;
        }
    }
    // Freed while it is under way: the receiver's checks show that it is sent all the same.
    if (one != nullptr && !one->done && dice_.one_in(15)) {
        say("Request_free of " + sent.how);
        MPI_Request_free(&one->request);
        one->done = true;
    }
}

void Player::start_all_sends() {
    for (const Message& message : graph_.messages)
        if (message.from == stage_.me)
            send(message, false);
}

}  // namespace p2p_test
