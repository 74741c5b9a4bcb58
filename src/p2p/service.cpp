#include "p2p/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/job_messages.hpp"
#include "comm/losses.hpp"
#include "error/loss.hpp"
#include "fastpath/message.hpp"
#include "p2p/pair_comms.hpp"
#include "p2p/partitioned.hpp"
#include "p2p/probed_messages.hpp"
#include "p2p/receive.hpp"
#include "p2p/send.hpp"
#include "p2p/watched.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "request/handle.hpp"
#include "request/message_layer.hpp"
#include "settings/settings.hpp"

namespace swy::p2p {
namespace {

struct Exchange {
    call::Secret secret{};
    int rank = 0;
    std::uint64_t next = 1;
    std::unordered_map<std::uint64_t, Send*> sends;
    std::unordered_map<std::uint64_t, Receive*> receives;
    std::map<std::pair<std::uint32_t, std::uint64_t>, call::EnvelopeBytes> payloads;  // by sender and its id
};
Exchange& exchange() {
    static auto* the_exchange = new Exchange;  // not destroyed at exit
    return *the_exchange;
}

Receive* find_receive(std::uint64_t slot) {
    const auto it = exchange().receives.find(slot);
    return it == exchange().receives.end() ? nullptr : it->second;
}

// Messages of one key arrive in order: a receive that cannot tell which message it has, has the oldest one of which no
// receive is known. `several`: there are such messages on several communicators, not all of which have numbers.
struct Oldest {
    std::uint64_t id = 0;
    Send* send = nullptr;
    bool several = false;
};
Oldest oldest_unknown(int to, const MatchKey& key) {
    Oldest oldest;
    for (const auto& [id, send] : exchange().sends) {
        if (!send->is_unknown_to(to, key))
            continue;
        oldest.several = oldest.several || (oldest.send != nullptr && oldest.send->comm() != send->comm());
        if (oldest.send == nullptr || id < oldest.id)
            oldest = {id, send, oldest.several};
    }
    return oldest;
}

// Handles a receive that was too small, which is an error of the program's. Where it is not clear which message it met,
// none is given up for it.
void release(int from, const Control& control) {
    const Oldest oldest = oldest_unknown(from, control.key);
    if (oldest.send != nullptr && !oldest.several)
        oldest.send->release();
}

void tell_which(int from, const Control& control) {
    Control answer{.type = MessageType::kThis, .slot = control.slot};
    if (const Oldest oldest = oldest_unknown(from, control.key); oldest.send != nullptr) {
        const call::EnvelopeBytes envelope = oldest.send->give_to(control.slot);
        std::copy(envelope.begin(), envelope.end(), answer.content.begin());
        answer.flag = 1;
    }
    send_control(from, answer);
}

void clear(int from, const Control& control) {
    if (Send* send = find_send(control.id))
        send->clear(from, control);
    else if (control.how != How::kNothing)
        tell_failed(
            from, 0, control.slot,
            "its send is over: it has failed, or it was taken for a message with the same tag that came into too "
            "small a buffer");
}

void handle_control(int from, const Control& control) {
    switch (control.type) {
        case MessageType::kClear:
            clear(from, control);
            break;
        case MessageType::kRelease:
            release(from, control);
            break;
        case MessageType::kAnswer:
            if (Receive* receive = find_receive(control.slot))
                receive->answer(control.flag != 0);
            break;
        case MessageType::kFailed: {
            const auto* text = reinterpret_cast<const char*>(control.content.data());
            const std::string why(text, strnlen(text, control.content.size()));
            if (Send* send = find_send(control.id))
                send->failed(why);
            if (Receive* receive = find_receive(control.slot))
                receive->failed(why);
            break;
        }
        case MessageType::kPairComm:
            pair_comms::handle_control(from, control);
            break;
        case MessageType::kWhich:
            tell_which(from, control);
            break;
        case MessageType::kThis:
            if (Receive* receive = find_receive(control.slot))
                receive->was(control.flag != 0
                                 ? call::read(std::span(control.content).first(call::kEnvelopeBytes), secret())
                                 : std::nullopt);
            break;
        case MessageType::kPartitions:
#if OMPI_MAJOR_VERSION >= 5
            partitioned::announced(control);
#endif
            break;
        case MessageType::kAsk:  // a receive that claims it from the probed messages answers later
            if (!is_probed(from, control.id))
                send_control(from, {.type = MessageType::kClear, .how = How::kNothing, .id = control.id});
            break;
        case MessageType::kPayload:
            std::copy_n(control.content.begin(), call::kEnvelopeBytes,
                        exchange().payloads[{static_cast<std::uint32_t>(from), control.id}].begin());
            break;
    }
}

bool serve() {
    return receive_controls(handle_control);
}

call::Secret draw_secret() {
    std::random_device random;
    call::Secret secret{};
    for (std::uint64_t& word : secret)
        word = (std::uint64_t{random()} << 32) | random();
    return secret;
}

// The settings are rank 0's already; whether the engine can drive messages may differ between ranks.
int agree_on_envelopes(bool mine, bool& all) {
    const int here = mine ? 1 : 0;
    int least = 0;
    const int rc = real::Allreduce(&here, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    all = least == 1;
    return rc;
}

}  // namespace

const call::Secret& secret() {
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

std::optional<call::EnvelopeBytes> take_payload(const call::Envelope& envelope) {
    const auto node = exchange().payloads.extract({envelope.sender, envelope.id});
    return node.empty() ? std::nullopt : std::optional(node.mapped());
}

call::EnvelopeBytes await_payload(const call::Envelope& envelope) {
    for (;;) {
        if (const auto payload = take_payload(envelope))
            return *payload;
        serve();
    }
}

staging::Route chunk_route(int peer, std::uint64_t slot) {
    constexpr std::uint64_t kTags = 1u << 20;
    const int tag = comm::kFirstChunkTag + static_cast<int>(slot % kTags);
    return {chunks(), peer, tag, tag + static_cast<int>(kTags)};
}

void tell_failed(int rank, std::uint64_t id, std::uint64_t slot, const std::string& why) {
    Control control{.type = MessageType::kFailed, .id = id, .slot = slot};
    std::memcpy(control.content.data(), why.data(), std::min(why.size(), control.content.size() - 1));
    send_control(rank, control);
}

namespace {

// Every operation of one of the maps above for whose peer or communicator `what` is not empty. Ending one may end
// others.
template <typename Operation>
void end_lost(const std::unordered_map<std::uint64_t, Operation*>& all) {
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, operation] : all)
        numbers.push_back(number);
    for (const std::uint64_t number : numbers)
        if (const auto found = all.find(number); found != all.end())
            found->second->end_if_lost();
}

}  // namespace

std::string what_is_lost(MPI_Comm comm, int world_rank, int rank) {
    if (comm::is_lost(world_rank))
        return fmt::format("rank {} has failed", rank);
    return comm::lives(comm) && error::is_revoked(comm) ? "the communicator has been revoked" : "";
}

void lose() {
    pair_comms::lose();
    end_lost(exchange().sends);
    end_lost(exchange().receives);
}

int start() {
    Exchange& e = exchange();
    real::Comm_rank(MPI_COMM_WORLD, &e.rank);
    bool all = false;
    // A CUDA-aware MPI that is declared as such gets device pointers itself.
    const bool mine = progress::engine_runs() && !settings::values().cuda_aware_mpi;
    if (const int rc = agree_on_envelopes(mine, all); rc != MPI_SUCCESS || !all)
        return rc;
    if (e.rank == 0)
        e.secret = draw_secret();
    int rc = real::Bcast(e.secret.data(), sizeof(call::Secret), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rc == MPI_SUCCESS)
        rc = start_control();
    if (rc != MPI_SUCCESS)
        return rc;
    request::have_blocking_sends_run_progress();
    pair_comms::start();
    progress::add_service(serve);
    progress::add_service(pair_comms::step);
    int threads = MPI_THREAD_SINGLE;
    real::Query_thread(&threads);
    request::one_thread = threads < MPI_THREAD_MULTIPLE;
    if (request::one_thread)
        progress::add_service(request::answer_watched);
    else
        fastpath::probed_messages.fetch_add(1, std::memory_order_relaxed);
    request::envelope_arrived = envelope_arrived;
    request::shows_envelope = shows_envelope;
    request::go_on = go_on;
    comm::on_free = [](MPI_Comm comm) {
        const progress::Hold hold;
        forget_probed(comm);
    };
    fastpath::limit = settings::values().p2p_threshold;
    if (!request::one_thread)
        fastpath::watchable = fastpath::limit;
    fastpath::secret_word = e.secret[0];
    fastpath::envelopes = true;
    return MPI_SUCCESS;
}

namespace {

// Tests, without waiting, whether all ranks have come to the barrier, or one of them has failed.
void meet(bool& met, MPI_Request& request) {
    int done = 0;
    if (!met)
        met = real::Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
}

}  // namespace

// A program completes its requests before MPI_Finalize, but it may have freed some whose messages are not complete, and
// other ranks may need this rank's answers until theirs are complete too. Operations that are alive when every rank has
// come and nothing has moved for a while belong to a program that never completes them.
void finish(MPI_Comm ranks) {
    constexpr double kPatienceSeconds = 3;
    if (!fastpath::envelopes)
        return;
    MPI_Request all = MPI_REQUEST_NULL;
    bool met = ranks == MPI_COMM_NULL || real::Ibarrier(ranks, &all) != MPI_SUCCESS;
    progress::Deadline patience(kPatienceSeconds);
    bool all_are_here = false;
    while ((progress::alive.load() != 0 || !met) && !(all_are_here && patience.passed())) {
        progress::progress();
        meet(met, all);
        if (met && !all_are_here) {
            all_are_here = true;
            patience = progress::Deadline(kPatienceSeconds);
        }
    }
    const progress::Hold hold;
    fastpath::envelopes = false;
    progress::drop_services();
    pair_comms::stop();
    stop_control();
    forget_probed();
    exchange().payloads.clear();
    comm::on_free = nullptr;
}

}  // namespace swy::p2p
