#include "p2p/pair_comm_cache.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "comm/losses.hpp"
#include "p2p/service.hpp"
#include "settings/settings.hpp"

namespace swy::p2p::pair_comms {
namespace {

// A pair communicator ends to make room for another one only after the process has had this many transfers, times the
// number of pair communicators that it may have, without a use of it: where more pairs than that take turns, all would
// otherwise be set up and ended for ever.
constexpr std::uint64_t kTransfersOfRest = 8;

// After the sender has declined, this many messages of the pair pass before the next offer; twice as many each time.
constexpr int kFirstPause = 4, kLongestPause = 256;

constexpr const char* kReset = "the device was reset";

struct Pair {  // a directed pair: the sender's devices by name, this rank's by ordinal
    int from;
    Gpu gpu;
    std::vector<int> ordinals;
    bool operator<(const Pair& other) const {
        return std::tie(from, gpu, ordinals) < std::tie(other.from, other.gpu, other.ordinals);
    }
};
Pair pair_of(int from, const Gpu& gpu, Devices devices) {
    Pair pair{from, gpu, {}};
    for (const device::Location& where : devices)
        pair.ordinals.push_back(where.ordinal);
    return pair;
}

struct Earned {
    std::size_t bytes = 0;
    int pause = 0, next_pause = kFirstPause;  // in messages
    Reason obstacle = Reason::kNone;
};

struct Cache {
    std::vector<std::shared_ptr<PairComm>> pair_comms;
    std::map<Pair, Earned> pairs;
    std::unordered_map<int, std::uint64_t> lost;  // pair communicators to that rank that failed here
    std::unordered_map<int, std::uint64_t>
        lost_known;  // pair communicators from that rank of whose failure it has told us
    std::uint64_t clock = 0;
    std::uint64_t drawn = 0;
};

Cache& cache() {
    static auto* the_cache = new Cache;  // not destroyed at exit
    return *the_cache;
}

std::size_t bound() {
    return static_cast<std::size_t>(settings::values().p2p_pair_comms);
}

Earned& earned_by(const PairComm& pair_comm) {
    return cache().pairs[{pair_comm.peer, pair_comm.gpu, pair_comm.ordinals}];
}

// Accounts for pair communicators that failed, and removes those that are gone.
void sweep() {
    for (const auto& pair_comm : cache().pair_comms) {
        if (!pair_comm->broken())
            continue;
        if (pair_comm->role == PairComm::Role::kSender)
            cache().lost[pair_comm->peer] += pair_comm->told() ? 1 : 0;
        else if (!pair_comm->was_ready())
            earned_by(*pair_comm).obstacle = Reason::kNcclFailed;
    }
    std::erase_if(cache().pair_comms,
                  [](const auto& pair_comm) { return pair_comm->state() == PairComm::State::kGone; });
}

bool room() {
    sweep();
    return cache().pair_comms.size() < bound();
}

// Ends a pair communicator. The receiver does this, since it knows of all clears to send that it has sent before.
void evict(PairComm& pair_comm) {
    tell(pair_comm.peer, PairCommMessage::kClosing, pair_comm.id);
    nccl::Communicator::count_evicted();
    pair_comm.close();
}

// Ends the least recently used pair communicator that has been idle long enough; one at a time.
void make_room() {
    PairComm* oldest = nullptr;
    for (const auto& pair_comm : cache().pair_comms) {
        if (pair_comm->state() == PairComm::State::kEnding || pair_comm->asked_to_close)
            return;
        if (pair_comm->idle() && (oldest == nullptr || pair_comm->last_used < oldest->last_used))
            oldest = pair_comm.get();
    }
    if (oldest == nullptr || cache().clock - oldest->last_used < kTransfersOfRest * bound())
        return;
    if (oldest->role == PairComm::Role::kReceiver) {
        evict(*oldest);
        return;
    }
    oldest->asked_to_close = true;
    tell(oldest->peer, PairCommMessage::kPleaseClose, oldest->id);
}

bool may_have_pair_comm(const Earned& earned) {
    switch (settings::values().p2p_comm) {
        case settings::P2pComm::kPair:
            return true;
        case settings::P2pComm::kAuto:
            return earned.bytes >= settings::values().p2p_pair_comm_after;
        case settings::P2pComm::kShared:
            break;
    }
    return false;
}

void accepted(PairComm& pair_comm, const Control& answer) {
    if (!pair_comm.may_share_gpus && overlap(list_of(pair_comm.ordinals), answer.content)) {
        earned_by(pair_comm).obstacle = Reason::kDuplicateGpu;
        tell(pair_comm.peer, PairCommMessage::kBroken, pair_comm.id);
        pair_comm.decline();
        return;
    }
    nccl::UniqueId unique;
    if (const std::string problem = nccl::Communicator::draw(unique); !problem.empty()) {
        pair_comm.break_off(problem);
        return;
    }
    const int channels = std::min(pair_comm.channels, static_cast<int>(answer.channels));
    tell(pair_comm.peer, PairCommMessage::kBegin, pair_comm.id, &unique, channels);
    pair_comm.begin(unique, channels);
}

void declined(PairComm& pair_comm) {
    Earned& earned = earned_by(pair_comm);
    earned.pause = earned.next_pause;
    earned.next_pause = std::min(2 * earned.next_pause, kLongestPause);
    pair_comm.decline();
}

}  // namespace

void count_transfer() {
    ++cache().clock;
}

std::uint64_t transfers_counted() {
    return cache().clock;
}

std::shared_ptr<PairComm> find_pair_comm(std::uint64_t id) {
    const auto& pair_comms = cache().pair_comms;
    const auto it =
        std::find_if(pair_comms.begin(), pair_comms.end(), [id](const auto& pair_comm) { return pair_comm->id == id; });
    return it == pair_comms.end() ? nullptr : *it;
}

std::shared_ptr<PairComm> ready_pair_comm(int from, const Gpu& gpu, Devices devices, std::uint64_t lost) {
    if (cache().lost_known[from] < lost)
        return nullptr;
    for (const auto& pair_comm : cache().pair_comms) {
        if (pair_comm->role != PairComm::Role::kReceiver || pair_comm->peer != from || pair_comm->gpu != gpu ||
            pair_comm->state() != PairComm::State::kReady || !same(pair_comm->ordinals, devices))
            continue;
        if (pair_comm->alive()) {
            pair_comm->last_used = cache().clock;
            return pair_comm;
        }
        pair_comm->break_off(kReset);
        return nullptr;
    }
    return nullptr;
}

void count_bytes(int from, const Gpu& gpu, Devices devices, std::size_t bytes) {
    Earned& earned = cache().pairs[pair_of(from, gpu, devices)];
    earned.bytes += bytes;
    earned.pause -= earned.pause > 0 ? 1 : 0;
}

std::uint64_t offer(int from, const Gpu& gpu, Devices devices, std::size_t others, bool may_share_gpus, bool links,
                    Reason& obstacle) {
    Earned& earned = cache().pairs[pair_of(from, gpu, devices)];
    obstacle = earned.obstacle;
    if (obstacle != Reason::kNone || bound() == 0 || earned.pause > 0 || !may_have_pair_comm(earned))
        return 0;
    sweep();
    for (const auto& pair_comm : cache().pair_comms)
        if (pair_comm->role == PairComm::Role::kReceiver && pair_comm->peer == from && pair_comm->gpu == gpu &&
            same(pair_comm->ordinals, devices))
            return 0;
    if (!room()) {
        make_room();
        return 0;
    }
    const std::uint64_t id = (static_cast<std::uint64_t>(own_rank()) + 1) << 32 | ++cache().drawn;
    cache().pair_comms.push_back(std::make_shared<PairComm>(id, PairComm::Role::kReceiver, from, gpu, devices, others));
    cache().pair_comms.back()->last_used = cache().clock;
    cache().pair_comms.back()->may_share_gpus = may_share_gpus;
    cache().pair_comms.back()->channels = most_channels(cache().pair_comms.back()->ordinals, links);
    return id;
}

void answer_offer(std::uint64_t id, int from, const Gpu& gpu, Devices devices, std::size_t others) {
    if (!room()) {
        tell(from, PairCommMessage::kDeclined, id);
        make_room();
        return;
    }
    cache().pair_comms.push_back(std::make_shared<PairComm>(id, PairComm::Role::kSender, from, gpu, devices, others));
    cache().pair_comms.back()->last_used = cache().clock;
    const nccl::UniqueId list = list_of(cache().pair_comms.back()->ordinals);
    tell(from, PairCommMessage::kAccepted, id, &list, most_channels(cache().pair_comms.back()->ordinals, true));
}

std::uint64_t failed_pair_comms(int to) {
    for (const auto& pair_comm : cache().pair_comms)
        if (pair_comm->role == PairComm::Role::kSender && pair_comm->peer == to && !pair_comm->alive())
            pair_comm->break_off(kReset);
    sweep();
    return cache().lost[to];
}

void hear_of_pair_comm(int rank, const Control& control) {
    const std::shared_ptr<PairComm> pair_comm = find_pair_comm(control.pair_comm);
    const auto word = static_cast<PairCommMessage>(control.flag);
    if (word == PairCommMessage::kBroken && (control.pair_comm >> 32) == static_cast<std::uint64_t>(own_rank()) + 1)
        ++cache().lost_known[rank];
    if (pair_comm == nullptr || pair_comm->state() == PairComm::State::kGone)
        return;
    switch (word) {
        case PairCommMessage::kAccepted:
            accepted(*pair_comm, control);
            break;
        case PairCommMessage::kDeclined:
            declined(*pair_comm);
            break;
        case PairCommMessage::kBegin:
            pair_comm->begin(control.content, static_cast<int>(control.channels));
            break;
        case PairCommMessage::kLaunched:
            pair_comm->peer_launched();
            break;
        case PairCommMessage::kClosing:
            nccl::Communicator::count_evicted();
            pair_comm->close();
            break;
        case PairCommMessage::kPleaseClose:
            if (pair_comm->idle())
                evict(*pair_comm);
            break;
        case PairCommMessage::kBroken:
            pair_comm->break_off("NCCL failed at the other end", false);
            break;
    }
}

bool step_pair_comms() {
    bool moved = false;
    // A step may end transfers, which adds no pair communicators and removes none.
    for (const auto& pair_comm : cache().pair_comms)
        moved |= pair_comm->step();
    sweep();
    return moved;
}

void lose_pair_comms() {
    for (const auto& pair_comm : cache().pair_comms)
        if (comm::is_lost(pair_comm->peer))
            pair_comm->break_off("the rank at the other end has failed", false);
}

void stop_pair_comms() {
    for (const auto& pair_comm : cache().pair_comms)
        pair_comm->stop();
    cache() = {};
}

}  // namespace swy::p2p::pair_comms
