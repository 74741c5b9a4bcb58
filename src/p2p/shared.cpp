#include "p2p/shared.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "comm/world.hpp"
#include "nccl/communicator.hpp"
#include "nccl/operation.hpp"
#include "nccl/transfer.hpp"
#include "p2p/multiprocessors.hpp"
#include "p2p/pair_comm.hpp"
#include "p2p/service.hpp"
#include "settings/settings.hpp"

namespace swy::p2p::pair_comms {
namespace {

struct Parent {
    enum class Held : std::uint8_t { kFree, kProposed, kByBoth };

    std::weak_ptr<nccl::Communicator> communicator;
    std::vector<int> world;  // its ranks in MPI_COMM_WORLD
    Held held = Held::kFree;
    int peer = -1;
    std::uint64_t slot = 0;  // of the receive that proposed
    bool peer_launched = false;
    const nccl::Operation* operation = nullptr;  // once it is launched
    std::vector<std::uint64_t> crossed;          // slots of proposals that the peer will refuse in favour of its own
    int collectives = 0;

    void reserve(int with) {
        held = Held::kByBoth;
        peer = with;
        peer_launched = false;
        operation = nullptr;
    }
    void free() {
        held = Held::kFree;
        operation = nullptr;
    }
    bool launched() const { return operation != nullptr && operation->launch_finished(); }
};

struct Shared {
    std::map<std::uint64_t, Parent> parents;  // by NCCL's id
    std::vector<const comm::State*> in_collective;
};
Shared& shared() {
    static auto* the_shared = new Shared;  // not destroyed at exit
    return *the_shared;
}

Parent* find_parent(std::uint64_t id) {
    const auto it = shared().parents.find(id);
    return it == shared().parents.end() ? nullptr : &it->second;
}

void remember(comm::State& comm) {
    auto& parents = shared().parents;
    if (parents.count(comm.nccl->id()) != 0)
        return;
    std::erase_if(parents, [](const auto& entry) {
        const Parent& parent = entry.second;
        return parent.communicator.expired() && parent.held == Parent::Held::kFree && parent.collectives == 0;
    });
    Parent& parent = parents[comm.nccl->id()];
    parent.communicator = comm.nccl;
    for (int rank = 0; rank < comm.size; ++rank)
        parent.world.push_back(comm::world_rank(comm, rank));
}

// One side of a transfer over a parent. Until it is done, this rank and the peer have no other transfer there.
class ParentTransfer final : public staging::Transfer {
  public:
    ParentTransfer(std::uint64_t id, std::shared_ptr<nccl::Communicator> communicator, int peer, int ordinal,
                   const nccl::Piece& piece, std::shared_ptr<const pack::Packed> packed)
        : id_(id),
          peer_(peer),
          ordinal_(ordinal),
          communicator_(std::move(communicator)),
          operation_(nccl::transfer({piece}, std::move(packed)), communicator_, nccl::Operation::On::kOwnStreams) {}
    ~ParentTransfer() override { ParentTransfer::give_up("the transfer was abandoned"); }

    bool step() override {
        if (done())
            return false;
        const bool launching = !launched_ && (launches_first(peer_) || find_parent(id_)->peer_launched) &&
                               room_.begin(std::span(&ordinal_, 1), nccl::Communicator::kMostChannels);
        if (launching)
            launch();
        const bool moved = launched_ && operation_.step();
        if (operation_.done())
            finish(operation_.failure());
        return launching || moved;
    }

    void give_up(const std::string& why) override {
        if (!done())
            finish(why);
    }

  private:
    void launch() {
        launched_ = true;
        if (launches_first(peer_))
            tell(peer_, PairCommMessage::kLaunched, id_);
        operation_.ready();  // where that fails, launch() does
        operation_.launch();
        find_parent(id_)->operation = &operation_;
        if (launches_first(peer_))
            see_off_controls(peer_);
    }

    void finish(const std::string& failure) {
        if (!failure.empty())
            communicator_->abort();
        room_.end();
        if (Parent* parent = find_parent(id_))  // null after MPI_Finalize
            parent->free();
        end(failure);
    }

    const std::uint64_t id_;
    const int peer_;
    const int ordinal_;
    const std::shared_ptr<nccl::Communicator> communicator_;
    nccl::Operation operation_;
    MultiprocessorClaim room_;
    bool launched_ = false;
};

}  // namespace

std::uint64_t parent_for(const pack::Payload& payload, comm::State* comm) {
    if (settings::values().p2p_comm == settings::P2pComm::kPair || comm == nullptr || comm->inter || comm->spans_jobs ||
        comm->nccl == nullptr || comm->ordinal != payload.where.ordinal || !comm->nccl->usable() ||
        !comm->nccl->device_stream().alive())
        return 0;
    const auto& busy = shared().in_collective;
    if (std::find(busy.begin(), busy.end(), comm) != busy.end())
        return 0;
    remember(*comm);
    return comm->nccl->id();
}

Proposed propose(const call::Envelope& envelope, const pack::Payload& payload, comm::State* comm, Control& clear) {
    const std::uint64_t id = envelope.parent == 0 ? 0 : parent_for(payload, comm);
    if (id == 0 || id != envelope.parent)
        return Proposed::kNo;
    Parent& parent = *find_parent(id);
    if (parent.collectives != 0)
        return Proposed::kNo;
    const int from = static_cast<int>(envelope.sender);
    if (parent.held != Parent::Held::kFree)
        return parent.peer == from || parent.launched() ? Proposed::kLater : Proposed::kNo;
    parent.held = Parent::Held::kProposed;
    parent.peer = from;
    parent.slot = clear.slot;
    clear.how = How::kParent;
    clear.pair_comm = id;
    return Proposed::kYes;
}

bool give_back(const Control& clear) {
    Parent* parent = find_parent(clear.pair_comm);
    if (parent == nullptr)
        return false;
    if (std::erase(parent->crossed, clear.slot) != 0)
        return true;
    if (parent->held == Parent::Held::kProposed && parent->slot == clear.slot)
        parent->free();
    return false;
}

bool reserve_parent(std::uint64_t id, int from) {
    Parent* parent = find_parent(id);
    const auto communicator = parent == nullptr ? nullptr : parent->communicator.lock();
    if (communicator == nullptr || !communicator->usable() || parent->collectives != 0)
        return false;
    if (parent->held == Parent::Held::kProposed && parent->peer == from && launches_first(from) == false)
        parent->crossed.push_back(parent->slot);
    else if (parent->held != Parent::Held::kFree)
        return false;
    parent->reserve(from);
    return true;
}

std::unique_ptr<staging::Transfer> over_parent(const Control& clear, int peer, const pack::Payload& payload, bool sends,
                                               std::string& why) {
    Parent* parent = find_parent(clear.pair_comm);
    if (parent == nullptr) {
        why = "the communicator's NCCL communicator is gone";
        return nullptr;
    }
    if (!sends)
        parent->reserve(peer);
    auto communicator = parent->communicator.lock();
    const auto at = std::find(parent->world.begin(), parent->world.end(), peer);
    if (communicator == nullptr || !communicator->usable() || at == parent->world.end()) {
        why = "the communicator's NCCL communicator is gone";
        parent->free();
        return nullptr;
    }
    const nccl::Piece piece{.send = sends,
                            .peer = static_cast<int>(at - parent->world.begin()),
                            .data = payload.data,
                            .bytes = clear.bytes};
    auto transfer = std::make_unique<ParentTransfer>(clear.pair_comm, std::move(communicator), peer,
                                                     payload.where.ordinal, piece, payload.packed);
    transfer->step();
    return transfer;
}

void peer_launched_on_parent(std::uint64_t id, int peer) {
    Parent* parent = find_parent(id);
    if (parent != nullptr && parent->held == Parent::Held::kByBoth && parent->peer == peer)
        parent->peer_launched = true;
}

bool collective_begins(const comm::State& comm, std::uint64_t& id) {
    shared().in_collective.push_back(&comm);
    id = comm.nccl == nullptr ? 0 : comm.nccl->id();
    if (Parent* parent = find_parent(id))
        ++parent->collectives;
    else
        id = 0;
    return all_launched(id);
}

bool all_launched(std::uint64_t id) {
    const Parent* parent = find_parent(id);
    return parent == nullptr || parent->held == Parent::Held::kFree || parent->launched();
}

bool lower_rank_has_not_answered(std::uint64_t id) {
    const Parent* parent = find_parent(id);
    return parent != nullptr && parent->held == Parent::Held::kProposed && !launches_first(parent->peer);
}

void collective_ends(const comm::State& comm, std::uint64_t id) {
    auto& busy = shared().in_collective;
    if (const auto it = std::find(busy.begin(), busy.end(), &comm); it != busy.end())
        busy.erase(it);
    if (Parent* parent = find_parent(id))
        --parent->collectives;
}

void stop_shared() {
    shared() = {};
}

}  // namespace swy::p2p::pair_comms
