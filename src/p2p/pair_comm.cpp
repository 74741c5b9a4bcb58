#include "p2p/pair_comm.hpp"

#include <span>
#include <utility>

#include "comm/setup.hpp"
#include "p2p/service.hpp"
#include "progress/engine.hpp"
#include "settings/settings.hpp"

namespace swy::p2p::pair_comms {

namespace {

constexpr const char* kAbandoned = "the transfer was abandoned";

std::vector<int> ordinals_of(std::span<const device::Location> devices) {
    std::vector<int> all;
    for (const device::Location& where : devices)
        all.push_back(where.ordinal);
    return all;
}

std::vector<device::Context> contexts_of(std::span<const device::Location> devices) {
    std::vector<device::Context> all;
    for (const device::Location& where : devices)
        all.push_back(where.context);
    return all;
}

}  // namespace

void tell(int rank, PairCommMessage word, std::uint64_t pair_comm, const nccl::UniqueId* unique, int channels) {
    Control control{.type = MessageType::kPairComm,
                    .flag = static_cast<std::uint8_t>(word),
                    .pair_comm = pair_comm,
                    .channels = static_cast<std::uint32_t>(channels)};
    if (unique != nullptr)
        control.content = *unique;
    send_control(rank, control);
}

bool launches_first(int peer) {
    return own_rank() < peer;
}

void Interest::keep(bool wanted) {
    if (wanted != kept_)
        progress::alive.fetch_add(wanted ? 1 : -1, std::memory_order_relaxed);
    kept_ = wanted;
}

// One side of a transfer on a pair communicator. Stepping any transfer drives the communicator.
class PairCommTransfer final : public staging::Transfer {
  public:
    PairCommTransfer(std::shared_ptr<PairComm> pair_comm, std::vector<nccl::Piece> what,
                     std::shared_ptr<const pack::Packed> packed, bool told)
        : pieces(std::move(what)), packed(std::move(packed)), told(told), pair_comm_(std::move(pair_comm)) {}
    ~PairCommTransfer() override { PairCommTransfer::give_up(kAbandoned); }

    bool step() override { return pair_comm_->step(); }
    void give_up(const std::string& why) override {
        if (!done())
            pair_comm_->break_off(why);
    }
    void finish(const std::string& failure) { end(failure); }

    std::vector<nccl::Piece> pieces;
    const std::shared_ptr<const pack::Packed> packed;
    const bool told;

  private:
    const std::shared_ptr<PairComm> pair_comm_;
};

PairComm::PairComm(std::uint64_t id, Role role, int peer, const Gpu& gpu, std::span<const device::Location> devices,
                   std::size_t others)
    : id(id),
      role(role),
      peer(peer),
      gpu(gpu),
      ordinals(ordinals_of(devices)),
      others(others),
      contexts_(contexts_of(devices)),
      deadline_(settings::values().timeout) {
    enter(State::kOffered);
}

void PairComm::enter(State state) {
    state_ = state;
    was_ready_ |= state == State::kReady;
    interest_.keep(half_made());
}

bool PairComm::alive() const {
    return communicator_ == nullptr || communicator_->alive();
}

void PairComm::begin(const nccl::UniqueId& unique, int agreed_channels) {
    channels = agreed_channels;
    std::string problem;
    const std::size_t first = role == Role::kSender ? 0 : others;
    // No cache looks it up by its members, so they need no names.
    communicator_ = nccl::Communicator::begin({.group = nccl::Group(contexts_.size() + others),
                                               .first = static_cast<int>(first),
                                               .contexts = contexts_,
                                               .ids = std::span(&unique, 1),
                                               .channels = channels},
                                              problem);
    if (communicator_ == nullptr)
        break_off(problem);
    else
        enter(State::kMaking);
    for (const int ordinal : ordinals)
        comm::note_device(ordinal);
}

bool PairComm::make() {
    std::string problem;
    switch (communicator_->step_make(problem)) {
        case nccl::Communicator::Making::kUnderWay:
            if (!deadline_.passed())
                return false;
            problem = deadline_.why() + " while NCCL connected the two ranks";
            break;
        case nccl::Communicator::Making::kMade:
            enter(State::kGreeting);
            return true;
        case nccl::Communicator::Making::kFailed:
            break;
    }
    break_off(problem);
    return true;
}

bool PairComm::step() {
    const auto self = shared_from_this();
    switch (state_) {
        case State::kMaking:
            return make();
        case State::kGreeting:
        case State::kReady:
            return run();
        case State::kEnding:
            if (!communicator_->step_end())
                return false;
            enter(State::kGone);
            return true;
        default:
            return false;
    }
}

int PairComm::rank_there(std::size_t device) const {
    return static_cast<int>(role == Role::kSender ? ordinals.size() + device : device);
}

// Connects the pairs of devices that exchange data in a message of which each end's runs are equal shares.
std::vector<nccl::Piece> PairComm::pairs() const {
    std::vector<nccl::Piece> pieces;
    const std::size_t own = ordinals.size();
    pack::each_stretch(own * others, others, own, [&](std::size_t mine, std::size_t theirs, std::size_t, std::size_t) {
        pieces.push_back({.member = mine, .peer = rank_there(theirs)});
    });
    return pieces;
}

void PairComm::launch(bool told) {
    ++launched_here_;
    if (launches_first(peer) && !told)
        tell(peer, PairCommMessage::kLaunched, id);
    operation_->ready();  // where that fails, launch() does
    operation_->launch();
    if (launches_first(peer))
        see_off_controls(peer);
}

// Runs one operation at a time: streams share a GPU's few queues, and an operation that waits there for the one before
// would hold up what other streams have behind it.
bool PairComm::run() {
    const bool greeting = state_ == State::kGreeting;
    PairCommTransfer* const transfer = greeting || queue_.empty() ? nullptr : queue_.front();
    bool moved = false;
    if (operation_ == nullptr) {
        if ((!greeting && transfer == nullptr) || !may_launch() || !room_.begin(ordinals, channels))
            return false;
        operation_ = std::make_unique<nccl::Operation>(
            greeting ? nccl::greeting(pairs()) : nccl::transfer(std::move(transfer->pieces), transfer->packed),
            communicator_, nccl::Operation::On::kCommunicatorsStreams);
        launch(!greeting && transfer->told);
        moved = true;
    }
    moved |= operation_->step();
    if (!operation_->done())
        return moved;
    const std::string failure = operation_->failure();
    operation_.reset();
    room_.end();
    if (!failure.empty()) {
        break_off(failure);
        return true;
    }
    if (greeting) {
        enter(State::kReady);
    } else {
        queue_.pop_front();
        transfer->finish({});
    }
    if (queue_.empty() && closing_)
        begin_end();
    return true;
}

std::unique_ptr<staging::Transfer> PairComm::add(const pack::Payload& payload, std::size_t bytes, std::size_t part,
                                                 bool told) {
    std::vector<nccl::Piece> pieces;
    const std::size_t own = payload.part_bytes();
    pack::each_stretch(bytes, own, part, [&](std::size_t mine, std::size_t theirs, std::size_t at, std::size_t length) {
        pieces.push_back({.send = role == Role::kSender,
                          .member = mine,
                          .peer = rank_there(theirs),
                          .data = payload.part(mine) + at % own,
                          .bytes = length});
    });
    auto transfer = std::make_unique<PairCommTransfer>(shared_from_this(), std::move(pieces), payload.packed, told);
    asked_to_close = false;
    queue_.push_back(transfer.get());
    step();
    return transfer;
}

void PairComm::close() {
    closing_ = true;
    if (state_ == State::kReady && queue_.empty())
        begin_end();
}

void PairComm::begin_end() {
    enter(communicator_->start_end() ? State::kEnding : State::kGone);
}

void PairComm::decline() {
    enter(State::kGone);
}

void PairComm::break_off(const std::string& why, bool tell_peer) {
    const auto self = shared_from_this();
    if (state_ == State::kGone)
        return;
    if (state_ == State::kEnding) {
        // It is no longer needed; how it ends concerns nobody.
        nccl::Communicator::finish_ending(communicator_);
        enter(State::kGone);
        return;
    }
    if (communicator_ != nullptr)
        communicator_->abort();
    operation_.reset();
    room_.end();
    enter(State::kGone);
    broken_ = true;
    told_ = tell_peer;
    if (tell_peer)
        tell(peer, PairCommMessage::kBroken, id);
    for (PairCommTransfer* transfer : std::exchange(queue_, {}))
        transfer->finish(why);
}

void PairComm::stop() {
    if (state_ == State::kReady && queue_.empty() && communicator_->start_end())
        nccl::Communicator::finish_ending(communicator_);
    else if (state_ == State::kEnding)
        nccl::Communicator::finish_ending(communicator_);
    else if (communicator_ != nullptr)
        communicator_->abort();
    for (PairCommTransfer* transfer : std::exchange(queue_, {}))
        transfer->finish("MPI was finalized");
    enter(State::kGone);
}

}  // namespace swy::p2p::pair_comms
