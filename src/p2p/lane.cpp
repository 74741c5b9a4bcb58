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

// Ranks of a lane's NCCL communicator.
constexpr int kSender = 0, kReceiver = 1;

// A connected peer takes about 12 MiB a channel, and every channel a multiprocessor while a transfer runs: operations
// of many lanes must fit side by side on a GPU, for none may wait for another's end.
constexpr int kChannels = 4;

constexpr const char* kAbandoned = "the transfer was abandoned";

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
    LaneTransfer(std::shared_ptr<Half> half, void* data, std::size_t bytes, bool told)
        : data(data), bytes(bytes), told(told), half_(std::move(half)) {}
    ~LaneTransfer() override { LaneTransfer::give_up(kAbandoned); }

    bool step() override { return half_->step(); }
    void give_up(const std::string& why) override {
        if (!done())
            half_->break_off(why);
    }
    void finish(const std::string& failure) { end(failure); }

    void* const data;
    const std::size_t bytes;
    const bool told;

  private:
    const std::shared_ptr<Half> half_;
};

Half::Half(std::uint64_t id, Role role, int peer, const Gpu& gpu, const device::Location& where)
    : id(id),
      role(role),
      peer(peer),
      gpu(gpu),
      ordinal(where.ordinal),
      context_(where.context),
      deadline_(settings::values().timeout) {
    enter(State::kOffered);
}

void Half::enter(State state) {
    state_ = state;
    was_ready_ |= state == State::kReady;
    interest_.keep(half_made());
}

bool Half::alive() const {
    return communicator_ == nullptr || (communicator_->usable() && communicator_->lane().alive());
}

void Half::begin(const nccl::UniqueId& unique) {
    std::string problem;
    const int rank = role == Role::kSender ? kSender : kReceiver;
    // Looked up by its members in no cache, so they need no names.
    communicator_ =
        nccl::Communicator::begin(nccl::Group(2), rank, std::span(&unique, 1), context_, kChannels, problem);
    if (communicator_ == nullptr)
        break_off(problem);
    else
        enter(State::kMaking);
    comm::note_device(ordinal);
}

bool Half::make() {
    std::string problem;
    switch (communicator_->step_make(problem)) {
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
            if (!communicator_->step_end())
                return false;
            enter(State::kGone);
            return true;
        default:
            return false;
    }
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
    const int other = role == Role::kSender ? kReceiver : kSender;
    const bool greeting = state_ == State::kGreeting;
    LaneTransfer* const transfer = greeting || queue_.empty() ? nullptr : queue_.front();
    bool moved = false;
    if (operation_ == nullptr) {
        if ((!greeting && transfer == nullptr) || !may_launch())
            return false;
        const Kind kind = greeting ? Kind::kGreeting : role == Role::kSender ? Kind::kSend : Kind::kReceive;
        operation_ = std::make_unique<nccl::PointToPoint>(communicator_, kind, greeting ? nullptr : transfer->data,
                                                          greeting ? 0 : transfer->bytes, other);
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

std::unique_ptr<Transfer> Half::add(void* data, std::size_t bytes, bool told) {
    auto transfer = std::make_unique<LaneTransfer>(shared_from_this(), data, bytes, told);
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
    enter(communicator_->start_end() ? State::kEnding : State::kGone);
}

void Half::decline() {
    enter(State::kGone);
}

void Half::break_off(const std::string& why, bool tell_peer) {
    const auto self = shared_from_this();
    if (state_ == State::kGone)
        return;
    if (state_ == State::kEnding && communicator_->usable()) {
        // It has served its purpose; how it ends concerns nobody.
        communicator_->abort();
        enter(State::kGone);
        return;
    }
    if (communicator_ != nullptr)
        communicator_->abort();
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
    if (state_ == State::kReady && queue_.empty() && communicator_->start_end())
        nccl::Communicator::finish_ending(communicator_);
    else if (state_ == State::kEnding)
        nccl::Communicator::finish_ending(communicator_);
    else if (communicator_ != nullptr)
        communicator_->abort();
    for (LaneTransfer* transfer : std::exchange(queue_, {}))
        transfer->finish("MPI was finalized");
    enter(State::kGone);
}

}  // namespace swy::p2p::lanes
