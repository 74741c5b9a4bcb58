#include "p2p/lanes.hpp"

#include <algorithm>

#include "carrier/nccl/library.hpp"
#include "carrier/nccl/member.hpp"
#include "p2p/devices.hpp"
#include "p2p/exchange.hpp"
#include "p2p/lane_cache.hpp"
#include "p2p/shared.hpp"
#include "request/engine.hpp"
#include "request/wait.hpp"
#include "settings/settings.hpp"

namespace swy::p2p::lanes {
namespace {

namespace nccl = carrier::nccl;

constexpr const char* kGone = "the NCCL communicator of the two ranks is gone";

bool started = false;

// What keeps memory on these devices from NCCL, which has one rank for each.
Reason obstacle_on(Devices devices) {
    for (const device::Location& where : devices) {
        if (!where.on_device())
            return Reason::kMixed;
        if (!where.primary || where.ordinal < 0)
            return Reason::kForeignContext;
        const auto here = [&](const device::Location& other) { return other.ordinal == where.ordinal; };
        if (std::count_if(devices.begin(), devices.end(), here) > 1)
            return Reason::kDuplicateGpu;
    }
    return devices.size() > kMostDevices ? Reason::kNotBuilt : Reason::kNone;
}

// What keeps this end's payload from NCCL.
Reason obstacle_here(const Payload& payload) {
    if (!payload.device)
        return Reason::kMixed;
    if (!payload.in_runs())
        return Reason::kDerivedType;
    if (const Reason obstacle = obstacle_on(payload.devices()); obstacle != Reason::kNone)
        return obstacle;
    if (!settings::values().nccl)
        return Reason::kNcclOff;
    // That synchronisation waits for all that runs on the device, transfers that peers have yet to launch included:
    // two ranks would wait for each other.
    if (settings::values().sync == settings::Sync::kDevice)
        return Reason::kNotBuilt;
    if (nccl::too_old())
        return Reason::kOldNccl;
    return nccl::load() == nullptr ? Reason::kNoNccl : Reason::kNone;
}

// Does NCCL not mind when a GPU is at both ends, or can none be?
bool may_share_gpus(const Envelope& envelope, const Payload& payload) {
    return envelope.host != device_here(payload.where.ordinal).host || (envelope.shares_gpu && nccl::shares_gpus());
}

Reason obstacle_between(const Envelope& envelope, const Payload& payload) {
    if (!payload.device)
        return Reason::kMixed;
    if (!envelope.contiguous && !envelope.several)
        return Reason::kDerivedType;
    if (const Reason here = obstacle_here(payload); here != Reason::kNone)
        return here;
    if (!envelope.nccl)  // it says why there
        return envelope.parent < static_cast<std::uint64_t>(kReasons) ? static_cast<Reason>(envelope.parent)
                                                                      : Reason::kNoNccl;
    const bool one_gpu = !may_share_gpus(envelope, payload) && envelope.gpu == device_here(payload.where.ordinal).gpu;
    return one_gpu ? Reason::kDuplicateGpu : Reason::kNone;
}

bool of_several(const Envelope& envelope, const Payload& payload) {
    return envelope.several || payload.parts() > 1;
}

void staged(Control& clear, Reason reason) {
    clear.how = How::kStaged;
    clear.reason = reason;
}

// The ways over NCCL, in the order of preference. False: not yet.
bool choose_communicator(const Envelope& envelope, const Payload& payload, comm::State* comm, bool may_propose,
                         Control& clear) {
    const int from = static_cast<int>(envelope.sender);
    if (const auto half = ready_half(from, envelope.gpu, payload.devices(), envelope.lane)) {
        clear.how = How::kLane;
        clear.lane = half->id;
        clear.flag = half->launches_at_once() ? 1 : 0;
        return true;
    }
    // The communicator's own has one device of each rank.
    const bool several = of_several(envelope, payload);
    const Proposed proposed = may_propose && !several ? propose(envelope, payload, comm, clear) : Proposed::kNo;
    if (proposed == Proposed::kLater)
        return false;
    Reason obstacle = Reason::kNone;
    clear.offered = offer(from, envelope.gpu, payload.devices(), envelope.several ? envelope.parent : 1,
                          !several || may_share_gpus(envelope, payload), obstacle);
    if (proposed == Proposed::kNo)
        staged(clear, obstacle != Reason::kNone ? obstacle : Reason::kNoLane);
    return true;
}

}  // namespace

void describe(const Payload& payload, int to, comm::State* comm, Envelope& envelope) {
    count_transfer();
    const Reason obstacle = obstacle_here(payload);
    envelope.nccl = obstacle == Reason::kNone;
    if (!envelope.nccl) {
        envelope.parent = static_cast<std::uint64_t>(obstacle);
        return;
    }
    envelope.gpu = name_of(payload.devices());
    envelope.host = device_here(payload.where.ordinal).host;
    envelope.shares_gpu = nccl::shares_gpus();
    envelope.lane = lost_lanes(to);
    envelope.parent = envelope.several ? payload.parts() : parent_for(payload, comm);
}

bool choose(const Envelope& envelope, const Payload& payload, comm::State* comm, Control& clear) {
    const bool refused = clear.how == How::kParent;
    const bool may_propose = !refused || give_back(clear);
    const bool first_time = !refused && clear.tag == 0;
    clear.how = How::kNothing;
    clear.reason = Reason::kNone;
    clear.flag = 0;
    clear.lane = clear.offered = 0;
    clear.tag = 1;  // it has been counted; of no meaning to the sender
    clear.parts = payload.parts();
    clear.part = payload.part_bytes();
    if (static_cast<int>(envelope.sender) == own_rank() && (envelope.contiguous || envelope.several) &&
        payload.in_runs() && payload.all_on_devices()) {
        clear.how = How::kCopy;
        return true;
    }
    if (const Reason obstacle = obstacle_between(envelope, payload); obstacle != Reason::kNone) {
        staged(clear, obstacle);
        return true;
    }
    if (first_time) {
        count_transfer();
        count_bytes(static_cast<int>(envelope.sender), envelope.gpu, payload.devices(), envelope.bytes);
    }
    return choose_communicator(envelope, payload, comm, may_propose, clear);
}

void withdraw(const Control& clear) {
    if (clear.how == How::kParent)
        give_back(clear);
}

std::unique_ptr<Transfer> receive(const Control& clear, int from, const Payload& payload, std::string& why) {
    if (clear.how == How::kParent)
        return over_parent(clear, from, payload, false, why);
    if (const auto half = find_half(clear.lane))
        return half->add(payload, clear.bytes, clear.bytes / half->others, clear.flag != 0);
    why = kGone;
    return nullptr;
}

std::unique_ptr<Transfer> send(const Control& clear, int to, const Payload& payload, std::string& why) {
    if (clear.how == How::kParent)
        return over_parent(clear, to, payload, true, why);
    const auto half = find_half(clear.lane);
    if (half == nullptr || half->state() >= Half::State::kEnding) {
        why = kGone;
        return nullptr;
    }
    if (clear.flag != 0)
        half->peer_launched();
    half->last_used = transfers_counted();
    return half->add(payload, clear.bytes, clear.part, false);
}

bool reserve(const Control& clear, int from) {
    return reserve_parent(clear.lane, from);
}

void take_offer(const Control& clear, int from, const Payload& payload) {
    if (clear.offered != 0)
        answer_offer(clear.offered, from, name_of(payload.devices()), payload.devices(), clear.parts);
}

void hear(int rank, const Control& control) {
    if (static_cast<LaneWord>(control.flag) == LaneWord::kLaunched && find_half(control.lane) == nullptr)
        peer_launched_on_parent(control.lane, rank);
    else
        hear_of_lane(rank, control);
}

bool step() {
    return step_halves();
}

void start() {
    started = true;
}

void stop() {
    started = false;
    stop_halves();
    stop_shared();
}

Collective::Collective(const comm::State& comm) {
    if (!started || settings::values().p2p_comm == settings::P2pComm::kPair)
        return;
    comm_ = &comm;
    bool ready = false;
    {
        const request::Hold hold;
        ready = collective_begins(comm, parent_);
    }
    while (!ready) {
        request::progress();
        const request::Hold hold;
        ready = all_launched(parent_);
    }
}

Announced::Announced(const comm::State& comm) {
    if (!started || settings::values().p2p_comm == settings::P2pComm::kPair)
        return;
    comm_ = &comm;
    collective_begins(comm, parent_);
}

Announced::~Announced() {
    if (comm_ != nullptr)
        collective_ends(*comm_, parent_);
}

bool Announced::may_launch() const {
    return comm_ == nullptr || all_launched(parent_);
}

bool Announced::nothing_reserved() const {
    return comm_ == nullptr || free_of_messages(parent_);
}

Collective::~Collective() {
    if (comm_ == nullptr)
        return;
    const request::Hold hold;
    collective_ends(*comm_, parent_);
}

}  // namespace swy::p2p::lanes
