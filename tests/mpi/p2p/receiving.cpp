// Receiving, exactly and by wildcards, with probes before and without.
#include <algorithm>

#include "../pml.hpp"
#include "player.hpp"

namespace p2p_test {
namespace {

enum Way { kPlain, kProbe, kIprobe, kMprobe, kImprobe, kWays };
constexpr const char* kWayNames[] = {"", "Probe and ", "Iprobe and ", "Mprobe and ", "Improbe and "};

const char* source_name(int source) {
    return source == MPI_ANY_SOURCE ? "any source" : "its source";
}

// The probe of a way: the message's status, and the message itself for the matched ones.
int probe(Way way, int source, int tag, MPI_Comm comm, MPI_Message& message, MPI_Status& status) {
    int code = MPI_SUCCESS, found = way == kProbe || way == kMprobe ? 1 : 0;
    if (way == kProbe)
        code = MPI_Probe(source, tag, comm, &status);
    else if (way == kMprobe)
        code = MPI_Mprobe(source, tag, comm, &message, &status);
    while (found == 0 && code == MPI_SUCCESS)
        code = way == kIprobe ? MPI_Iprobe(source, tag, comm, &found, &status)
                              : MPI_Improbe(source, tag, comm, &found, &message, &status);
    return code;
}

}  // namespace

// The message that one with this envelope must be: the first of its kind that has not been taken (MPI 4.0 section 3.5).
const Message* Player::next_from(int source, int tag, int& time) {
    for (std::size_t i = 0; i < graph_.messages.size(); ++i) {
        const Message& message = graph_.messages[i];
        if (message.to != stage_.me || stage_.rank_of(message.from) != source || message.tag != tag ||
            taken_[i] == message.times)
            continue;
        time = taken_[i]++;
        return &message;
    }
    return nullptr;
}

// A receive with a buffer for `room` elements. Without a message: of whatever comes to this node.
Receive& Player::ask(const Message* message, int source, int tag, int room) {
    MPI_Datatype base = MPI_BYTE;
    for (const Message& any : graph_.messages)
        if (any.to == stage_.me && (message == nullptr || message == &any))
            base = any.base;
    receives_.emplace_back();
    Receive& receive = receives_.back();
    receive.message = message;
    receive.source = source;
    receive.tag = tag;
    const int missing = message == nullptr ? 0 : std::max(0, message->elements - room);
    receive.buffer = std::make_unique<Buffer>(dice_, gpus_, Buffer::End::kReceived, base, room, graph_.plain, missing);
    receive.buffer->put({});
    return receive;
}

void Player::start(Receive& receive) {
    const Buffer& buffer = *receive.buffer;
    const bool persistent = dice_.one_in(3);
    Open& one = open(std::string(persistent ? "Recv_init" : "Irecv") + " " + receive.how);
    receive.open = &one;
    receive.has_status = one.needs_status = receive.message == nullptr || receive.short_of_room || !dice_.one_in(4);
    one.persistent = persistent;
    one.may_fail = true;
    one.cut = receive.short_of_room;
    say(one.what);
    one.code = (persistent ? MPI_Recv_init : MPI_Irecv)(buffer.address(), buffer.count(), buffer.type(), receive.source,
                                                        receive.tag, stage_.comm, &one.request);
    if (persistent && one.code == MPI_SUCCESS)
        one.code = dice_.one_in(2) ? MPI_Start(&one.request) : MPI_Startall(1, &one.request);
    if (one.code != MPI_SUCCESS) {
        fail("starting returned " + std::to_string(one.code) + ": " + one.what);
        one.done = true;
    }
}

// By any way that does not leave the message for later, or by a request.
void Player::receive_now(Receive& receive, bool by_request) {
    const Buffer& buffer = *receive.buffer;
    const Way way = dice_.one_in(2) ? kPlain : static_cast<Way>(dice_.below(kWays));
    MPI_Message matched = MPI_MESSAGE_NULL;
    receive.how += " into " + buffer.what();
    if (way != kPlain) {
        say(kWayNames[way] + receive.how);
        MPI_Status status;
        status.MPI_ERROR = kSentinel;
        if (probe(way, receive.source, receive.tag, stage_.comm, matched, status) != MPI_SUCCESS)
            fail("the probe failed: " + receive.how);
        if (receive.message == nullptr) {
            receive.message = next_from(status.MPI_SOURCE, status.MPI_TAG, receive.time);
            if (receive.message == nullptr)
                return fail("a probe found source " + std::to_string(status.MPI_SOURCE) + " and tag " +
                            std::to_string(status.MPI_TAG) + ", which no message has: " + receive.how);
        }
        receive.how = kWayNames[way] + receive.how;
        check_status(receive, status, receive.message->elements);
        receive.source = status.MPI_SOURCE;  // another message might be meant by a wildcard
        receive.tag = status.MPI_TAG;
    }
    if (way != kMprobe && way != kImprobe && by_request)
        return start(receive);
    receive.has_status = receive.message == nullptr || !dice_.one_in(4);
    receive.status.MPI_ERROR = kSentinel;
    MPI_Status* status = receive.has_status ? &receive.status : MPI_STATUS_IGNORE;
    if (way != kMprobe && way != kImprobe) {
        receive.how = "Recv " + receive.how;
        say(receive.how);
        receive.code =
            MPI_Recv(buffer.address(), buffer.count(), buffer.type(), receive.source, receive.tag, stage_.comm, status);
    } else if (!by_request || (receive.short_of_room && mpi_test::over("ucx"))) {
        // Over UCX Open MPI raises an error of MPI_Imrecv on a communicator that the request had before, freed perhaps.
        receive.how = "Mrecv " + receive.how;
        say(receive.how);
        receive.code = MPI_Mrecv(buffer.address(), buffer.count(), buffer.type(), &matched, status);
    } else {
        receive.has_status = true;
        receive.how = "Imrecv " + receive.how;
        say(receive.how);
        Open& one = open(receive.how);
        receive.open = &one;
        one.may_fail = true;
        one.cut = receive.short_of_room;
        one.code = MPI_Imrecv(buffer.address(), buffer.count(), buffer.type(), &matched, &one.request);
        one.done = one.code != MPI_SUCCESS;
    }
    if (way >= kMprobe && matched != MPI_MESSAGE_NULL)
        fail("the message handle is left: " + receive.how);
}

// In order: earlier messages of its source have been asked for, so that any tag is this one's; a tag that no other
// message has may come from any source.
void Player::receive(const Message& message) {
    for (int time = 0; time < message.times; ++time) {
        const bool any_source = message.only_tag && dice_.one_in(2);
        const bool any_tag = !any_source && dice_.one_in(4);
        const bool cut = stage_.truncates && message.from != message.to && message.elements > 0 && dice_.one_in(12);
        const int room =
            cut ? dice_.below(message.elements) : message.elements + (dice_.one_in(3) ? dice_.below(50) : 0);
        Receive& one = ask(&message, any_source ? MPI_ANY_SOURCE : stage_.rank_of(message.from),
                           any_tag ? MPI_ANY_TAG : message.tag, room);
        one.time = time;
        one.short_of_room = one.buffer->room() < message.elements;
        one.how = describe(message) + (any_tag ? ", any tag, " : ", ") + source_name(one.source) +
                  (one.short_of_room ? ", too little room" : "");
        receive_now(one, dice_.one_in(2));
        if (one.open != nullptr && time + 1 < message.times)
            complete({one.open});
    }
}

// All at once: exactly, in any order but that of equal envelopes, or by wildcards.
void Player::post_upfront() {
    std::vector<const Message*> mine;
    int most = 0;
    for (const Message& message : graph_.messages)
        if (message.to == stage_.me) {
            mine.push_back(&message);
            most = std::max(most, message.elements);
        }
    const bool any_source = dice_.one_in(3), any_tag = dice_.one_in(3);
    for (std::size_t i = mine.size(); i > 1; --i) {
        const auto other = static_cast<std::size_t>(dice_.below(static_cast<int>(i)));
        const bool ordered =
            std::any_of(mine.begin() + static_cast<std::ptrdiff_t>(other),
                        mine.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const Message* m) { return m != mine[other] && m->tag == mine[other]->tag; }) ||
            std::any_of(mine.begin() + static_cast<std::ptrdiff_t>(other),
                        mine.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const Message* m) { return m != mine[i - 1] && m->tag == mine[i - 1]->tag; });
        if (!ordered)
            std::swap(mine[i - 1], mine[other]);
    }
    for (const Message* message : mine) {
        const bool wild = any_source || any_tag;
        Receive& one = ask(wild ? nullptr : message, any_source ? MPI_ANY_SOURCE : stage_.rank_of(message->from),
                           any_tag ? MPI_ANY_TAG : message->tag, wild ? most : message->elements);
        one.how = std::string("upfront ") + (wild ? "by wildcard" : describe(*message)) + " into " + one.buffer->what();
        start(one);
        one.open->soon = false;
    }
}

void Player::serve() {
    std::size_t wanted = 0;
    int most = 0;
    for (const Message& message : graph_.messages)
        if (message.to == stage_.me) {
            wanted += static_cast<std::size_t>(message.times);
            most = std::max(most, message.elements);
        }
    for (std::size_t i = 0; i < wanted; ++i) {
        Receive& one = ask(nullptr, MPI_ANY_SOURCE, MPI_ANY_TAG, most);
        one.how = "whatever comes";
        receive_now(one, false);
        check(one);
    }
}

}  // namespace p2p_test
