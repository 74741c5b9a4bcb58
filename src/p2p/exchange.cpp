#include "p2p/exchange.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <unordered_map>
#include <vector>

#include "comm/control.hpp"
#include "p2p/begin.hpp"
#include "p2p/kept.hpp"
#include "p2p/lanes.hpp"
#include "p2p/plain.hpp"
#include "p2p/receive.hpp"
#include "p2p/send.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "request/wait.hpp"
#include "settings/settings.hpp"

namespace swy::p2p {
namespace {

struct Exchange {
    Secret secret{};
    int rank = 0;
    std::uint64_t next = 1;
    std::unordered_map<std::uint64_t, Send*> sends;
    std::unordered_map<std::uint64_t, Receive*> receives;
};
Exchange& exchange() {
    static auto* the_exchange = new Exchange;  // not destroyed at exit
    return *the_exchange;
}

Receive* find_receive(std::uint64_t slot) {
    const auto it = exchange().receives.find(slot);
    return it == exchange().receives.end() ? nullptr : it->second;
}

// Of several sends whose envelopes begin alike, which takes a buffer of hardly any bytes, the oldest one was matched.
void release(int from, const Control& control) {
    const std::span<const std::byte> begin(control.unique.data(),
                                           std::min<std::size_t>(control.bytes, control.unique.size()));
    std::uint64_t oldest = 0;
    for (const auto& [id, send] : exchange().sends)
        if (send->begins(from, control.tag, begin) && (oldest == 0 || id < oldest))
            oldest = id;
    if (oldest != 0)
        find_send(oldest)->release();
}

// Messages of one tag from one rank arrive in order: it was the oldest one that no receive is known to have.
void tell_which(int from, const Control& control) {
    std::uint64_t oldest = 0;
    for (const auto& [id, send] : exchange().sends)
        if (send->is_unknown_to(from, control.tag) && (oldest == 0 || id < oldest))
            oldest = id;
    Control answer{.word = Word::kThis, .slot = control.slot};
    if (oldest != 0) {
        const EnvelopeBytes envelope = find_send(oldest)->give_to(control.slot);
        std::copy(envelope.begin(), envelope.end(), answer.unique.begin());
        answer.flag = 1;
    }
    send_control(from, answer);
}

void hear(int from, const Control& control) {
    switch (control.word) {
        case Word::kClear:
            if (Send* send = find_send(control.id))
                send->clear(from, control);
            break;
        case Word::kRelease:
            release(from, control);
            break;
        case Word::kAnswer:
            if (Receive* receive = find_receive(control.slot))
                receive->answer(control.flag != 0);
            break;
        case Word::kFailed: {
            const auto* text = reinterpret_cast<const char*>(control.unique.data());
            const std::string why(text, strnlen(text, control.unique.size()));
            if (Send* send = find_send(control.id))
                send->failed(why);
            if (Receive* receive = find_receive(control.slot))
                receive->failed(why);
            break;
        }
        case Word::kLane:
            lanes::hear(from, control);
            break;
        case Word::kWhich:
            tell_which(from, control);
            break;
        case Word::kThis:
            if (Receive* receive = find_receive(control.slot))
                receive->was(control.flag != 0 ? read(std::span(control.unique).first(kEnvelopeBytes), secret())
                                               : std::nullopt);
            break;
    }
}

bool serve() {
    return receive_controls(hear);
}

Secret draw_secret() {
    std::random_device random;
    Secret secret{};
    for (std::uint64_t& half : secret)
        half = (std::uint64_t{random()} << 32) | random();
    return secret;
}

// Settings are rank 0's already; whether messages can be driven is every rank's.
int agree_on_envelopes(bool mine, bool& all) {
    const int here = mine ? 1 : 0;
    int least = 0;
    const int rc = real::Allreduce(&here, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    all = least == 1;
    return rc;
}

}  // namespace

const Secret& secret() {
    return exchange().secret;
}

int own_rank() {
    return exchange().rank;
}

std::uint64_t enter(Send* send) {
    const std::uint64_t id = exchange().next++;
    exchange().sends[id] = send;
    return id;
}

std::uint64_t enter(Receive* receive) {
    const std::uint64_t slot = exchange().next++;
    exchange().receives[slot] = receive;
    return slot;
}

void leave_send(std::uint64_t id) {
    exchange().sends.erase(id);
}

void leave_receive(std::uint64_t slot) {
    exchange().receives.erase(slot);
}

Send* find_send(std::uint64_t id) {
    const auto it = exchange().sends.find(id);
    return it == exchange().sends.end() ? nullptr : it->second;
}

int chunk_tag(std::uint64_t slot) {
    constexpr std::uint64_t kTags = 1u << 20;
    return comm::kFirstChunkTag + static_cast<int>(slot % kTags);
}

void tell_failed(int rank, std::uint64_t id, std::uint64_t slot, const std::string& why) {
    Control control{.word = Word::kFailed, .id = id, .slot = slot};
    std::memcpy(control.unique.data(), why.data(), std::min(why.size(), control.unique.size() - 1));
    send_control(rank, control);
}

int start() {
    Exchange& e = exchange();
    real::Comm_rank(MPI_COMM_WORLD, &e.rank);
    bool all = false;
    // An MPI that takes device pointers gets them.
    const bool mine = request::engine_runs() && !settings::values().cuda_aware_mpi;
    if (const int rc = agree_on_envelopes(mine, all); rc != MPI_SUCCESS || !all)
        return rc;
    if (e.rank == 0)
        e.secret = draw_secret();
    int rc = real::Bcast(e.secret.data(), sizeof(Secret), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rc == MPI_SUCCESS)
        rc = start_control();
    if (rc != MPI_SUCCESS)
        return rc;
    lanes::start();
    request::add_service(serve);
    request::add_service(lanes::step);
    int threads = MPI_THREAD_SINGLE;
    real::Query_thread(&threads);
    if (threads < MPI_THREAD_MULTIPLE)
        request::add_service(request::answer_watched);
    request::envelope_arrived = envelope_left;
    comm::on_free = [](MPI_Comm comm) {
        const request::Hold hold;
        forget_kept(comm);
    };
    limit = settings::values().p2p_threshold;
    secret_word = e.secret[0];
    envelopes = true;
    return MPI_SUCCESS;
}

namespace {

// Waits, with everybody's progress, until all ranks are here.
void meet(bool& met, MPI_Request& request) {
    int done = 0;
    if (!met && real::Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        met = done != 0;
}

}  // namespace

// A program completes its requests before MPI_Finalize, but it may have freed some whose messages are still to go, and
// other ranks may need this one's answers until they are there too. Operations that are alive when every rank has come
// and nothing has moved for a while belong to a program that never completes them.
void finish() {
    constexpr double kPatienceSeconds = 3;
    if (!envelopes)
        return;
    MPI_Request all = MPI_REQUEST_NULL;
    bool met = real::Ibarrier(comm::control_communicator(), &all) != MPI_SUCCESS;
    request::Deadline patience(kPatienceSeconds);
    bool all_are_here = false;
    while ((request::alive.load() != 0 || !met) && !(all_are_here && patience.passed())) {
        request::progress();
        meet(met, all);
        if (met && !all_are_here) {
            all_are_here = true;
            patience = request::Deadline(kPatienceSeconds);
        }
    }
    met = real::Ibarrier(comm::control_communicator(), &all) != MPI_SUCCESS;
    while (!met) {
        request::progress();
        meet(met, all);
    }
    const request::Hold hold;
    envelopes = false;
    request::drop_services();
    lanes::stop();
    stop_control();
    forget_kept();
    comm::on_free = nullptr;
}

}  // namespace swy::p2p
