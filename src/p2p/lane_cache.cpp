#include "p2p/lane_cache.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "p2p/exchange.hpp"
#include "settings/settings.hpp"

namespace swy::p2p::lanes {
namespace {

namespace nccl = carrier::nccl;

// A lane ends for another one only after the process has had so many transfers, for each lane that it may have, without
// a use of it: where more pairs than lanes take turns, all would be made and ended for ever.
constexpr std::uint64_t kTransfersOfRest = 8;

// After the sender has declined, so many messages of the pair pass before the next offer; twice as many each time.
constexpr int kFirstPause = 4, kLongestPause = 256;

constexpr const char* kReset = "the device was reset";

struct Pair {  // directed, of devices
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
    std::vector<std::shared_ptr<Half>> halves;
    std::map<Pair, Earned> pairs;
    std::unordered_map<int, std::uint64_t> lost;   // lanes to that rank that broke here
    std::unordered_map<int, std::uint64_t> heard;  // lanes from that rank that broke there, as it has said
    std::uint64_t clock = 0;
    std::uint64_t drawn = 0;
};

Cache& cache() {
    static auto* the_cache = new Cache;  // not destroyed at exit
    return *the_cache;
}

std::size_t bound() {
    return static_cast<std::size_t>(settings::values().p2p_lanes);
}

Earned& earned_by(const Half& half) {
    return cache().pairs[{half.peer, half.gpu, half.ordinals}];
}

// Keeps account of what broke, and forgets it.
void sweep() {
    for (const auto& half : cache().halves) {
        if (!half->broken())
            continue;
        if (half->role == Half::Role::kSender)
            cache().lost[half->peer] += half->told() ? 1 : 0;
        else if (!half->was_ready())
            earned_by(*half).obstacle = Reason::kNcclFailed;
    }
    std::erase_if(cache().halves, [](const auto& half) { return half->state() == Half::State::kGone; });
}

bool room() {
    sweep();
    return cache().halves.size() < bound();
}

// The receiver ends a lane, since it knows of all clears to send that went out before.
void evict(Half& half) {
    tell(half.peer, LaneWord::kClosing, half.id);
    nccl::Communicator::count_evicted();
    half.close();
}

// Ends the least recently used lane that has rested long enough; one at a time.
void make_room() {
    Half* oldest = nullptr;
    for (const auto& half : cache().halves) {
        if (half->state() == Half::State::kEnding || half->asked_to_close)
            return;
        if (half->idle() && (oldest == nullptr || half->last_used < oldest->last_used))
            oldest = half.get();
    }
    if (oldest == nullptr || cache().clock - oldest->last_used < kTransfersOfRest * bound())
        return;
    if (oldest->role == Half::Role::kReceiver) {
        evict(*oldest);
        return;
    }
    oldest->asked_to_close = true;
    tell(oldest->peer, LaneWord::kPleaseClose, oldest->id);
}

bool may_have_lane(const Earned& earned) {
    switch (settings::values().p2p_comm) {
        case settings::P2pComm::kPair:
            return true;
        case settings::P2pComm::kAuto:
            return earned.bytes >= settings::values().p2p_lane_after;
        case settings::P2pComm::kShared:
            break;
    }
    return false;
}

void accepted(Half& half, const nccl::UniqueId& devices_there) {
    if (!half.may_share_gpus && overlap(list_of(half.ordinals), devices_there)) {
        earned_by(half).obstacle = Reason::kDuplicateGpu;
        tell(half.peer, LaneWord::kBroken, half.id);
        half.decline();
        return;
    }
    nccl::UniqueId unique;
    if (const std::string problem = nccl::Communicator::draw(unique); !problem.empty()) {
        half.break_off(problem);
        return;
    }
    tell(half.peer, LaneWord::kBegin, half.id, &unique);
    half.begin(unique);
}

void declined(Half& half) {
    Earned& earned = earned_by(half);
    earned.pause = earned.next_pause;
    earned.next_pause = std::min(2 * earned.next_pause, kLongestPause);
    half.decline();
}

}  // namespace

void count_transfer() {
    ++cache().clock;
}

std::uint64_t transfers_counted() {
    return cache().clock;
}

std::shared_ptr<Half> find_half(std::uint64_t id) {
    const auto& halves = cache().halves;
    const auto it = std::find_if(halves.begin(), halves.end(), [id](const auto& half) { return half->id == id; });
    return it == halves.end() ? nullptr : *it;
}

std::shared_ptr<Half> ready_half(int from, const Gpu& gpu, Devices devices, std::uint64_t lost) {
    if (cache().heard[from] < lost)
        return nullptr;
    for (const auto& half : cache().halves) {
        if (half->role != Half::Role::kReceiver || half->peer != from || half->gpu != gpu ||
            half->state() != Half::State::kReady || !same(half->ordinals, devices))
            continue;
        if (half->alive()) {
            half->last_used = cache().clock;
            return half;
        }
        half->break_off(kReset);
        return nullptr;
    }
    return nullptr;
}

void count_bytes(int from, const Gpu& gpu, Devices devices, std::size_t bytes) {
    Earned& earned = cache().pairs[pair_of(from, gpu, devices)];
    earned.bytes += bytes;
    earned.pause -= earned.pause > 0 ? 1 : 0;
}

std::uint64_t offer(int from, const Gpu& gpu, Devices devices, std::size_t others, bool may_share_gpus,
                    Reason& obstacle) {
    Earned& earned = cache().pairs[pair_of(from, gpu, devices)];
    obstacle = earned.obstacle;
    if (obstacle != Reason::kNone || bound() == 0 || earned.pause > 0 || !may_have_lane(earned))
        return 0;
    sweep();
    for (const auto& half : cache().halves)
        if (half->role == Half::Role::kReceiver && half->peer == from && half->gpu == gpu &&
            same(half->ordinals, devices))
            return 0;
    if (!room()) {
        make_room();
        return 0;
    }
    const std::uint64_t id = (static_cast<std::uint64_t>(own_rank()) + 1) << 32 | ++cache().drawn;
    cache().halves.push_back(std::make_shared<Half>(id, Half::Role::kReceiver, from, gpu, devices, others));
    cache().halves.back()->last_used = cache().clock;
    cache().halves.back()->may_share_gpus = may_share_gpus;
    return id;
}

void answer_offer(std::uint64_t id, int from, const Gpu& gpu, Devices devices, std::size_t others) {
    if (!room()) {
        tell(from, LaneWord::kDeclined, id);
        make_room();
        return;
    }
    cache().halves.push_back(std::make_shared<Half>(id, Half::Role::kSender, from, gpu, devices, others));
    cache().halves.back()->last_used = cache().clock;
    const nccl::UniqueId list = list_of(cache().halves.back()->ordinals);
    tell(from, LaneWord::kAccepted, id, &list);
}

std::uint64_t lost_lanes(int to) {
    for (const auto& half : cache().halves)
        if (half->role == Half::Role::kSender && half->peer == to && !half->alive())
            half->break_off(kReset);
    sweep();
    return cache().lost[to];
}

void hear_of_lane(int rank, const Control& control) {
    const std::shared_ptr<Half> half = find_half(control.lane);
    const auto word = static_cast<LaneWord>(control.flag);
    if (word == LaneWord::kBroken && (control.lane >> 32) == static_cast<std::uint64_t>(own_rank()) + 1)
        ++cache().heard[rank];
    if (half == nullptr || half->state() == Half::State::kGone)
        return;
    switch (word) {
        case LaneWord::kAccepted:
            accepted(*half, control.unique);
            break;
        case LaneWord::kDeclined:
            declined(*half);
            break;
        case LaneWord::kBegin:
            half->begin(control.unique);
            break;
        case LaneWord::kLaunched:
            half->peer_launched();
            break;
        case LaneWord::kClosing:
            nccl::Communicator::count_evicted();
            half->close();
            break;
        case LaneWord::kPleaseClose:
            if (half->idle())
                evict(*half);
            break;
        case LaneWord::kBroken:
            half->break_off("NCCL failed at the other end", false);
            break;
    }
}

bool step_halves() {
    bool moved = false;
    // A step may end transfers, which adds no halves and removes none.
    for (const auto& half : cache().halves)
        moved |= half->step();
    sweep();
    return moved;
}

void stop_halves() {
    for (const auto& half : cache().halves)
        half->stop();
    cache() = {};
}

}  // namespace swy::p2p::lanes
