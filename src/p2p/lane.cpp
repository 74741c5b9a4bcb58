#include "p2p/lane.hpp"

#include <span>
#include <utility>

#include "comm/establish.hpp"
#include "p2p/exchange.hpp"
#include "request/engine.hpp"
#include "settings/settings.hpp"

namespace swy::p2p::lanes {

namespace nccl = carrier::nccl;

namespace {

// A connected peer takes about 12 MiB a channel, and every channel a multiprocessor while a transfer runs: operations
// of many lanes must fit side by side on a GPU, for none may wait for another's end.
constexpr int kChannels = 4;

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

void tell(int rank, LaneWord word, std::uint64_t lane, const nccl::UniqueId* unique) {
    Control control{.word = Word::kLane, .flag = static_cast<std::uint8_t>(word), .lane = lane};
    if (unique != nullptr)
        control.unique = *unique;
    send_control(rank, control);
}

bool launches_first(int peer) {
    return own_rank() < peer;
}

void Interest::keep(bool wanted) {
    if (wanted != kept_)
        request::alive.fetch_add(wanted ? 1 : -1, std::memory_order_relaxed);
    kept_ = wanted;
}

// One side of a payload on a lane. Whichever is stepped moves the lane on.
class LaneTransfer final : public Transfer {
  public:
    LaneTransfer(std::shared_ptr<Half> half, std::vector<nccl::Piece> what, bool told)
        : pieces(std::move(what)), told(told), half_(std::move(half)) {}
    ~LaneTransfer() override { LaneTransfer::give_up(kAbandoned); }

    bool step() override { return half_->step(); }
    void give_up(const std::string& why) override {
        if (!done())
            half_->break_off(why);
    }
    void finish(const std::string& failure) { end(failure); }

    std::vector<nccl::Piece> pieces;
    const bool told;

  private:
    const std::shared_ptr<Half> half_;
};

Half::Half(std::uint64_t id, Role role, int peer, const Gpu& gpu, std::span<const device::Location> devices,
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

void Half::enter(State state) {
    state_ = state;
    was_ready_ |= state == State::kReady;
    interest_.keep(half_made());
}

bool Half::alive() const {
    return communicators_ == nullptr || communicators_->usable();
}

void Half::begin(const nccl::UniqueId& unique) {
    std::string problem;
    const std::size_t first = role == Role::kSender ? 0 : others;
    // Looked up by its members in no cache, so they need no names.
    communicators_ = nccl::LocalMembers::begin(nccl::Group(contexts_.size() + others), static_cast<int>(first),
                                               contexts_, unique, kChannels, problem);
    if (communicators_ == nullptr)
        break_off(problem);
    else
        enter(State::kMaking);
    for (const int ordinal : ordinals)
        comm::note_device(ordinal);
}

bool Half::make() {
    std::string problem;
    switch (communicators_->step_make(problem)) {
        case nccl::Communicator::Making::kUnderWay:
            if (!deadline_.passed())
                return false;
            problem = "SWITCHYARD_TIMEOUT has passed while NCCL connected the two ranks";
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

bool Half::step() {
    const auto self = shared_from_this();
    switch (state_) {
        case State::kMaking:
            return make();
        case State::kGreeting:
        case State::kReady:
            return run();
        case State::kEnding:
            if (!communicators_->step_end())
                return false;
            enter(State::kGone);
            return true;
        default:
            return false;
    }
}

int Half::rank_there(std::size_t device) const {
    return static_cast<int>(role == Role::kSender ? ordinals.size() + device : device);
}

// Those pairs of devices meet that meet in a message of which each end's runs are equal shares.
std::vector<nccl::Piece> Half::greetings() const {
    std::vector<nccl::Piece> pieces;
    const std::size_t own = ordinals.size();
    each_stretch(own * others, others, own, [&](std::size_t mine, std::size_t theirs, std::size_t, std::size_t) {
        pieces.push_back({.member = mine, .peer = rank_there(theirs)});
    });
    return pieces;
}

void Half::launch(bool told) {
    ++launched_here_;
    if (launches_first(peer) && !told)
        tell(peer, LaneWord::kLaunched, id);
    operation_->launch(false);
}

// One operation at a time: streams share a GPU's few queues, and an operation that waits there for the one before would
// hold up what other streams have behind it.
bool Half::run() {
    using Kind = nccl::PointToPoint::Kind;
    const bool greeting = state_ == State::kGreeting;
    LaneTransfer* const transfer = greeting || queue_.empty() ? nullptr : queue_.front();
    bool moved = false;
    if (operation_ == nullptr) {
        if ((!greeting && transfer == nullptr) || !may_launch())
            return false;
        const Kind kind = greeting ? Kind::kGreeting : role == Role::kSender ? Kind::kSend : Kind::kReceive;
        operation_ = std::make_unique<nccl::PointToPoint>(communicators_->members(), kind,
                                                          greeting ? greetings() : std::move(transfer->pieces));
        launch(!greeting && transfer->told);
        moved = true;
    }
    moved |= operation_->step();
    if (!operation_->done())
        return moved;
    const std::string failure = operation_->failure();
    operation_.reset();
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

std::unique_ptr<Transfer> Half::add(const Payload& payload, std::size_t bytes, std::size_t part, bool told) {
    std::vector<nccl::Piece> pieces;
    const std::size_t own = payload.part_bytes();
    each_stretch(bytes, own, part, [&](std::size_t mine, std::size_t theirs, std::size_t at, std::size_t length) {
        pieces.push_back(
            {.member = mine, .peer = rank_there(theirs), .data = payload.part(mine) + at % own, .bytes = length});
    });
    auto transfer = std::make_unique<LaneTransfer>(shared_from_this(), std::move(pieces), told);
    asked_to_close = false;
    queue_.push_back(transfer.get());
    step();
    return transfer;
}

void Half::close() {
    closing_ = true;
    if (state_ == State::kReady && queue_.empty())
        begin_end();
}

void Half::begin_end() {
    enter(communicators_->start_end() ? State::kEnding : State::kGone);
}

void Half::decline() {
    enter(State::kGone);
}

void Half::break_off(const std::string& why, bool tell_peer) {
    const auto self = shared_from_this();
    if (state_ == State::kGone)
        return;
    if (state_ == State::kEnding && !communicators_->gone()) {
        // It has served its purpose; how it ends concerns nobody.
        communicators_->abort();
        enter(State::kGone);
        return;
    }
    if (communicators_ != nullptr)
        communicators_->abort();
    operation_.reset();
    enter(State::kGone);
    broken_ = true;
    told_ = tell_peer;
    if (tell_peer)
        tell(peer, LaneWord::kBroken, id);
    for (LaneTransfer* transfer : std::exchange(queue_, {}))
        transfer->finish(why);
}

void Half::stop() {
    if (state_ == State::kReady && queue_.empty() && communicators_->start_end())
        nccl::LocalMembers::finish_ending(communicators_);
    else if (state_ == State::kEnding)
        nccl::LocalMembers::finish_ending(communicators_);
    else if (communicators_ != nullptr)
        communicators_->abort();
    for (LaneTransfer* transfer : std::exchange(queue_, {}))
        transfer->finish("MPI was finalized");
    enter(State::kGone);
}

}  // namespace swy::p2p::lanes
