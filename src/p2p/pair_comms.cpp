#include "p2p/pair_comms.hpp"

#include <algorithm>

#include "nccl/library.hpp"
#include "nccl/member.hpp"
#include "p2p/devices.hpp"
#include "p2p/mapped.hpp"
#include "p2p/pair_comm_cache.hpp"
#include "p2p/service.hpp"
#include "p2p/shared.hpp"
#include "pack/packed.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "settings/settings.hpp"

namespace swy::p2p::pair_comms {
namespace {

constexpr const char* kGone = "the NCCL communicator of the two ranks is gone";

bool started = false;

// Returns why NCCL, which has one rank for each device, cannot transfer memory on these devices; kNone if it can.
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
    return devices.size() > kMostDevices ? Reason::kManyBuffers : Reason::kNone;
}

// Returns why NCCL cannot transfer memory of this end's payload; kNone if it can.
Reason obstacle_here(const pack::Payload& payload) {
    if (!payload.device)
        return Reason::kMixed;
    if (const Reason obstacle = obstacle_on(payload.devices()); obstacle != Reason::kNone)
        return obstacle;
    if (settings::values().nccl == settings::Nccl::kNo)
        return Reason::kNcclOff;
    // A device-wide synchronisation waits for all that runs on the device, transfers that peers have yet to launch
    // included: two ranks would wait for each other.
    if (settings::values().sync == settings::Sync::kDevice)
        return Reason::kDeviceSync;
    if (nccl::too_old())
        return Reason::kOldNccl;
    return nccl::load() == nullptr ? Reason::kNoNccl : Reason::kNone;
}

// Gives a payload that is in no runs memory for `bytes` of its packed form, which is what NCCL moves. Returns why it
// cannot be packed; kNone where it is in runs, or can be. Neither end need know how the other one's data lies. A
// message of a process to itself never goes over NCCL.
Reason give_packed(pack::Payload& payload, std::size_t bytes, int peer) {
    if (payload.in_runs())
        return Reason::kNone;
    return peer == own_rank() ? Reason::kDerivedType : pack::Packed::give(payload, bytes);
}

// Tells whether both ends may have the same GPU: NCCL allows it, or the ends are on different hosts.
bool may_share_gpus(const call::Envelope& envelope, const pack::Payload& payload) {
    return envelope.host != device_here(payload.where.ordinal).host || (envelope.shares_gpu && nccl::shares_gpus());
}

// The name of several GPUs at the other end is none that this process knows of a GPU.
bool may_be_linked(const call::Envelope& envelope, const pack::Payload& payload) {
    const int ordinal = payload.where.ordinal;
    return envelope.host == device_here(ordinal).host && device::may_be_linked(ordinal, envelope.gpu);
}

Reason obstacle_between(const call::Envelope& envelope, pack::Payload& payload) {
    if (!payload.device)
        return Reason::kMixed;
    if (const Reason here = obstacle_here(payload); here != Reason::kNone)
        return here;
    if (!envelope.nccl)  // then `parent` holds the sender's reason
        return envelope.parent < static_cast<std::uint64_t>(kReasons) ? static_cast<Reason>(envelope.parent)
                                                                      : Reason::kNoNccl;
    if (static_cast<int>(envelope.sender) == own_rank())  // else one copy would do
        return Reason::kDerivedType;
    const bool one_gpu = envelope.gpu == device_here(payload.where.ordinal).gpu;
    // Through mapped memory two ranks of one GPU are served faster than by NCCL where that allows it.
    return one_gpu && (!may_share_gpus(envelope, payload) || mapped::possible(envelope, payload))
               ? Reason::kDuplicateGpu
               : give_packed(payload, envelope.bytes, static_cast<int>(envelope.sender));
}

bool of_several(const call::Envelope& envelope, const pack::Payload& payload) {
    return envelope.several || payload.parts() > 1;
}

void staged(Control& clear, Reason reason) {
    clear.how = How::kStaged;
    clear.reason = reason;
}

// Chooses among the transports over NCCL, in the order of preference. Returns false when it cannot choose yet.
bool choose_communicator(const call::Envelope& envelope, const pack::Payload& payload, comm::State* comm,
                         bool may_propose, Control& clear) {
    const int from = static_cast<int>(envelope.sender);
    if (const auto pair_comm = ready_pair_comm(from, envelope.gpu, payload.devices(), envelope.pair_comms_failed)) {
        clear.how = How::kPairComm;
        clear.pair_comm = pair_comm->id;
        clear.flag = pair_comm->launches_at_once() ? 1 : 0;
        return true;
    }
    // The communicator's own NCCL communicator has one device of each rank.
    const bool several = of_several(envelope, payload);
    const Proposed proposed = may_propose && !several ? propose(envelope, payload, comm, clear) : Proposed::kNo;
    if (proposed == Proposed::kLater)
        return false;
    Reason obstacle = Reason::kNone;
    clear.offered = offer(from, envelope.gpu, payload.devices(), envelope.several ? envelope.parent : 1,
                          !several || may_share_gpus(envelope, payload), may_be_linked(envelope, payload), obstacle);
    if (proposed == Proposed::kNo)
        staged(clear, obstacle != Reason::kNone ? obstacle : Reason::kNoPairComm);
    return true;
}

}  // namespace

void describe(pack::Payload& payload, int to, comm::State* comm, call::Envelope& envelope) {
    count_transfer();
    Reason obstacle = obstacle_here(payload);
    if (obstacle == Reason::kNone)
        obstacle = give_packed(payload, payload.bytes, to);
    envelope.nccl = obstacle == Reason::kNone;
    if (!envelope.nccl) {
        envelope.parent = static_cast<std::uint64_t>(obstacle);
        return;
    }
    envelope.gpu = name_of(payload.devices());
    envelope.host = device_here(payload.where.ordinal).host;
    envelope.shares_gpu = nccl::shares_gpus();
    envelope.pair_comms_failed = failed_pair_comms(to);
    envelope.parent = envelope.several ? payload.parts() : parent_for(payload, comm);
}

bool choose(const call::Envelope& envelope, pack::Payload& payload, comm::State* comm, Control& clear) {
    const bool refused = clear.how == How::kParent;
    const bool may_propose = !refused || give_back(clear);
    const bool first_time = !refused && !clear.chosen;
    clear.how = How::kNothing;
    clear.reason = Reason::kNone;
    clear.flag = 0;
    clear.pair_comm = clear.offered = 0;
    clear.chosen = true;
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

std::unique_ptr<staging::Transfer> receive(const Control& clear, int from, const pack::Payload& payload,
                                           std::string& why) {
    if (clear.how == How::kParent)
        return over_parent(clear, from, payload, false, why);
    if (const auto pair_comm = find_pair_comm(clear.pair_comm))
        return pair_comm->add(payload, clear.bytes, clear.bytes / pair_comm->others, clear.flag != 0);
    why = kGone;
    return nullptr;
}

std::unique_ptr<staging::Transfer> send(const Control& clear, int to, const pack::Payload& payload, std::string& why) {
    if (clear.how == How::kParent)
        return over_parent(clear, to, payload, true, why);
    const auto pair_comm = find_pair_comm(clear.pair_comm);
    if (pair_comm == nullptr || pair_comm->state() >= PairComm::State::kEnding) {
        why = kGone;
        return nullptr;
    }
    if (clear.flag != 0)
        pair_comm->peer_launched();
    pair_comm->last_used = transfers_counted();
    return pair_comm->add(payload, clear.bytes, clear.part, false);
}

bool reserve(const Control& clear, int from) {
    return reserve_parent(clear.pair_comm, from);
}

void take_offer(const Control& clear, int from, const pack::Payload& payload) {
    if (clear.offered != 0)
        answer_offer(clear.offered, from, name_of(payload.devices()), payload.devices(), clear.parts);
}

void handle_control(int rank, const Control& control) {
    if (static_cast<PairCommMessage>(control.flag) == PairCommMessage::kLaunched &&
        find_pair_comm(control.pair_comm) == nullptr)
        peer_launched_on_parent(control.pair_comm, rank);
    else
        hear_of_pair_comm(rank, control);
}

bool step() {
    return step_pair_comms();
}

void lose() {
    lose_pair_comms();
}

void start() {
    started = true;
}

void stop() {
    started = false;
    stop_pair_comms();
    stop_shared();
}

Collective::Collective(const comm::State& comm) {
    if (!started || settings::values().p2p_comm == settings::P2pComm::kPair)
        return;
    comm_ = &comm;
    bool ready = false;
    {
        const progress::Hold hold;
        ready = collective_begins(comm, parent_);
    }
    while (!ready) {
        progress::progress();
        const progress::Hold hold;
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

bool Announced::awaits_lower_rank() const {
    return comm_ != nullptr && lower_rank_has_not_answered(parent_);
}

Collective::~Collective() {
    if (comm_ == nullptr)
        return;
    const progress::Hold hold;
    collective_ends(*comm_, parent_);
}

}  // namespace swy::p2p::pair_comms
