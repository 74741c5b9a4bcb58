#include "player.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace p2p_test {

Player::Player(Dice& own, const Gpus& gpus, const Stage& stage, const Graph& graph, unsigned seed, char* note)
    : dice_(own),
      gpus_(gpus),
      stage_(stage),
      graph_(graph),
      seed_(seed),
      note_(note),
      taken_(graph.messages.size(), 0) {}

void Player::fail(const std::string& what) {
    std::fprintf(stderr, "seed %u, %s, node %d: %s\n", seed_, stage_.name.c_str(), stage_.me, what.c_str());
    ++failures_;
}

void Player::say(const std::string& what) {
    std::snprintf(note_, kNote, "seed %u, %s, node %d: %s\n", seed_, stage_.name.c_str(), stage_.me, what.c_str());
    static const bool aloud = std::getenv("SWY_TEST_ALOUD") != nullptr;
    if (aloud)
        std::fputs(note_, stderr);
}

Open& Player::open(std::string what) {
    opens_.emplace_back();
    opens_.back().what = std::move(what);
    opens_.back().status.MPI_ERROR = kSentinel;
    return opens_.back();
}

int Player::play() {
    const auto style = graph_.style[static_cast<std::size_t>(stage_.me)];
    if (style == Style::kUpfront)
        post_upfront();
    if (graph_.ready) {
        say("Barrier before messages in ready mode");
        MPI_Barrier(stage_.comm);
    }
    maybe_nobody();
    maybe_cancel();
    if (style == Style::kServer) {
        start_all_sends();
        serve();
    } else {
        walk();
    }
    complete_all(false);
    for (Receive& receive : receives_)
        if (!receive.checked)
            check(receive);
    for (Open& open : opens_) {
        if (open.code != MPI_SUCCESS && !open.may_fail)
            fail("completed with code " + std::to_string(open.code) + ": " + open.what);
        if (open.persistent && open.request != MPI_REQUEST_NULL)
            MPI_Request_free(&open.request);
    }
    say("Barrier at the end of the round");
    MPI_Barrier(stage_.comm);  // now requests that were freed under way are done as well
    for (const Sent& sent : sent_) {
        const std::string difference = sent.buffer->difference();
        if (!difference.empty())
            fail("the send buffer has changed: " + sent.how + ", " + difference);
    }
    return failures_;
}

// Every message at its place: see Style.
void Player::walk() {
    const bool posted = graph_.style[static_cast<std::size_t>(stage_.me)] == Style::kUpfront;
    for (std::size_t i = 0; i < graph_.messages.size(); ++i) {
        const Message& message = graph_.messages[i];
        if (message.exchange && message.from == stage_.me) {
            exchange(message, graph_.messages[i + 1]);
            ++i;
            continue;
        }
        if (message.from == stage_.me && message.to == stage_.me && !posted)
            to_self(message);
        else if (message.from == stage_.me)
            send(message, true);
        else if (message.to == stage_.me && !posted)
            receive(message);
        if (dice_.one_in(4))
            complete_all(true);
    }
}

void Player::exchange(const Message& out, const Message& in) {
    Sent& sent = prepare(out);
    const Buffer& from = *sent.buffer;
    const int to = stage_.rank_of(out.to), source = stage_.rank_of(in.from);
    sent.how =
        std::string(out.replace ? "Sendrecv_replace" : "Sendrecv") + " of " + describe(out) + " and " + describe(in);
    Receive& received = ask(&in, source, in.tag, in.elements);
    received.how = sent.how + " (" + from.what() + "; " + received.buffer->what() + ")";
    say(received.how);
    received.status.MPI_ERROR = kSentinel;
    const Buffer& into = *received.buffer;
    if (out.replace) {
        received.code = MPI_Sendrecv_replace(from.address(), from.count(), from.type(), to, out.tag, source, in.tag,
                                             stage_.comm, &received.status);
        received.buffer = std::move(sent.buffer);
        sent_.pop_back();
    } else {
        received.code = MPI_Sendrecv(from.address(), from.count(), from.type(), to, out.tag, into.address(),
                                     into.count(), into.type(), source, in.tag, stage_.comm, &received.status);
    }
}

// To itself, where one of both must not block.
void Player::to_self(const Message& message) {
    if (dice_.one_in(3)) {
        Sent& sent = prepare(message);
        const Buffer& from = *sent.buffer;
        Receive& received = ask(&message, stage_.rank_of(message.from), message.tag, message.elements + dice_.below(9));
        const Buffer& into = *received.buffer;
        sent.how = received.how =
            "Sendrecv with itself of " + describe(message) + " (" + from.what() + "; " + into.what() + ")";
        say(sent.how);
        received.status.MPI_ERROR = kSentinel;
        received.code =
            MPI_Sendrecv(from.address(), from.count(), from.type(), received.source, message.tag, into.address(),
                         into.count(), into.type(), received.source, message.tag, stage_.comm, &received.status);
    } else if (dice_.one_in(2)) {
        send(message, false);
        receive(message);
    } else {
        Receive& received = ask(&message, stage_.rank_of(message.from), message.tag, message.elements + dice_.below(9));
        received.how = "first, from itself, " + describe(message) + " into " + received.buffer->what();
        start(received);
        send(message, true);
    }
}

// To and from nobody: done at once, and nothing is touched (MPI 4.0 section 3.11).
void Player::maybe_nobody() {
    if (!dice_.one_in(6))
        return;
    const int elements = dice_.one_in(2) ? 100 : 100000;
    Buffer out(dice_, gpus_, Buffer::End::kSent, MPI_INT, elements),
        in(dice_, gpus_, Buffer::End::kReceived, MPI_INT, elements);
    out.put({});
    in.put({});
    MPI_Status status;
    say("messages to and from nobody");
    MPI_Send(out.address(), out.count(), out.type(), MPI_PROC_NULL, 1, stage_.comm);
    MPI_Sendrecv(out.address(), out.count(), out.type(), MPI_PROC_NULL, 1, in.address(), in.count(), in.type(),
                 MPI_PROC_NULL, 1, stage_.comm, &status);
    MPI_Request requests[2];
    MPI_Irecv(in.address(), in.count(), in.type(), MPI_PROC_NULL, 1, stage_.comm, &requests[0]);
    MPI_Issend(out.address(), out.count(), out.type(), MPI_PROC_NULL, 1, stage_.comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request again;
    MPI_Recv_init(in.address(), in.count(), in.type(), MPI_PROC_NULL, 1, stage_.comm, &again);
    MPI_Start(&again);
    MPI_Wait(&again, dice_.one_in(2) ? &status : MPI_STATUS_IGNORE);
    MPI_Request_free(&again);
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    if (status.MPI_SOURCE != MPI_PROC_NULL || status.MPI_TAG != MPI_ANY_TAG || count != 0)
        fail("the status of a receive from nobody");
    if (!out.difference().empty() || !in.difference().empty())
        fail("buffers of messages with nobody: " + out.difference() + in.difference());
}

// A receive that nothing matches can be cancelled, and then its buffer is as before (MPI 4.0 section 3.8.4).
void Player::maybe_cancel() {
    if (!dice_.one_in(6))
        return;
    Buffer buffer(dice_, gpus_, Buffer::End::kReceived, MPI_INT, dice_.one_in(2) ? 100 : 50000);
    buffer.put({});
    const bool persistent = dice_.one_in(2);
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    say("Cancel of a receive into " + buffer.what());
    (persistent ? MPI_Recv_init : MPI_Irecv)(buffer.address(), buffer.count(), buffer.type(), 0, kNobodysTag,
                                             stage_.comm, &request);
    if (persistent)
        MPI_Start(&request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    if (persistent)
        MPI_Request_free(&request);
    if (cancelled == 0 || !buffer.difference().empty())
        fail("a cancelled receive: " + std::string(cancelled != 0 ? "" : "not cancelled ") + buffer.difference());
}

void Player::check_status(const Receive& receive, const MPI_Status& status, int elements) {
    const Message& message = *receive.message;
    const Buffer& buffer = *receive.buffer;
    int cancelled = 1, count = -1, in_type = -1, in_base = -1;
    MPI_Test_cancelled(&status, &cancelled);
    if (status.MPI_SOURCE != stage_.rank_of(message.from) || status.MPI_TAG != message.tag || cancelled != 0)
        fail("status with source " + std::to_string(status.MPI_SOURCE) + ", tag " + std::to_string(status.MPI_TAG) +
             (cancelled != 0 ? ", cancelled: " : ": ") + receive.how);
    if (elements < 0)
        return;
    if (status.MPI_ERROR != kSentinel && status.MPI_ERROR != MPI_SUCCESS)
        fail("status with error " + std::to_string(status.MPI_ERROR) + ": " + receive.how);
    MPI_Get_count(&status, message.base, &count);
    MPI_Get_count(&status, buffer.type(), &in_type);
    MPI_Get_elements(&status, buffer.type(), &in_base);
    const int whole = elements % buffer.unit() == 0 ? elements / buffer.unit() : MPI_UNDEFINED;
    if (count != elements || in_type != whole || in_base != elements)
        fail("status with count " + std::to_string(count) + ", of the type " + std::to_string(in_type) + " (not " +
             std::to_string(whole) + "), elements " + std::to_string(in_base) + ": " + receive.how);
}

void Player::check(Receive& receive) {
    receive.checked = true;
    const MPI_Status& status = receive.open != nullptr ? receive.open->status : receive.status;
    const int code = receive.open != nullptr ? receive.open->code : receive.code;
    if (receive.message == nullptr)
        receive.message = next_from(status.MPI_SOURCE, status.MPI_TAG, receive.time);
    if (receive.message == nullptr)
        return fail("received from source " + std::to_string(status.MPI_SOURCE) + " with tag " +
                    std::to_string(status.MPI_TAG) + ", which no message has: " + receive.how);
    const std::string how = receive.how + ", which is " + describe(*receive.message) +
                            (receive.open != nullptr ? std::string(", completed by ") + receive.open->by : "");
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    // Open MPI 4.1.4 does not tell of a failed persistent request in every case.
    const bool lenient = receive.open != nullptr && receive.open->persistent && code == MPI_SUCCESS;
    if (error_class != (receive.short_of_room ? MPI_ERR_TRUNCATE : MPI_SUCCESS) && !(receive.short_of_room && lenient))
        fail("error class " + std::to_string(error_class) + ": " + how);
    if (receive.has_status)
        check_status(receive, status, receive.short_of_room ? -1 : receive.message->elements);
    if (receive.short_of_room)
        receive.buffer->forget();  // how much has come is not said
    else
        receive.buffer->expect(receive.message->data(receive.time));
    const std::string difference = receive.buffer->difference();
    if (!difference.empty())
        fail("wrong data, " + how + ", " + difference);
}

}  // namespace p2p_test
