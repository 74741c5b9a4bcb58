#include "comm/launch_order.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "call/hash.hpp"
#include "call/private_comm.hpp"
#include "comm/world.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

// All tokens have one tag, so that they come in the order in which they were sent.
constexpr int kTag = 1;

struct Busy {
    const nccl::Communicator* with = nullptr;
    int operations = 0;
    int waiting = 0;  // claims for other communicators: later ones for `with` do not overtake them
};
Busy busy;

std::atomic<std::int64_t> last_number{0};  // that agree_on_number() has drawn or learnt of

}  // namespace

int agree_on_number(const State& state, bool& all, std::int64_t& number) {
    const std::array<std::int64_t, 2> mine{all ? 1 : 0, -++last_number};
    std::array<std::int64_t, 2> least{};
    const int rc = real::Allreduce(mine.data(), least.data(), mine.size(), MPI_INT64_T, MPI_MIN, state.handle);
    all = least[0] != 0;
    number = -least[1];
    last_number = std::max(last_number.load(), number);
    return rc;
}

int LaunchOrder::make(State& state) {
    std::shared_ptr<LaunchOrder> order(new LaunchOrder);
    // A rank without a private communicator would not agree where the others do, so all have one or none has.
    bool all = call::make_private_comm_with_topology(state.handle, &order->private_comm_) == MPI_SUCCESS;
    const int rc = agree_on_number(state, all, order->number_);
    if (rc != MPI_SUCCESS || !all)
        return rc;
    order->find_place(state);
    order->owner_ = &state;
    state.order = std::move(order);
    return MPI_SUCCESS;
}

std::shared_ptr<LaunchOrder> LaunchOrder::adopt(State& state, MPI_Comm private_comm) {
    std::shared_ptr<LaunchOrder> order(new LaunchOrder);
    order->private_comm_ = private_comm;
    order->find_place(state);
    return order;
}

void LaunchOrder::find_place(State& state) {
    const int mine = world_rank(state, state.rank);
    int highest_before = -1;
    int lowest_after = -1;
    for (int rank = 0; rank < state.size; ++rank) {
        const int world = world_rank(state, rank);
        if (world < mine && world > highest_before) {
            highest_before = world;
            before_ = rank;
        }
        if (world > mine && (lowest_after < 0 || world < lowest_after)) {
            lowest_after = world;
            after_ = rank;
        }
    }
}

LaunchOrder::~LaunchOrder() {
    int down = 0;
    real::Finalized(&down);
    if (down)
        return;
    if (next_token_ != MPI_REQUEST_NULL) {
        real::Cancel(&next_token_);
        real::Request_free(&next_token_);
    }
    while (!sent_.empty() && sent_first()) {
    }
    const auto sent = std::make_shared<std::deque<Sent>>(std::move(sent_));
    for (const Sent& one : *sent)
        progress::keep_until(one.request, sent);
    if (private_comm_ != MPI_COMM_NULL)
        real::Comm_free(&private_comm_);
}

OperationId LaunchOrder::id_of(const Launch& launch) const {
    return call::kGoldenRatio * (static_cast<std::uint64_t>(number_) << 32U | launch.number) + launch.start;
}

void LaunchOrder::leave(const void* operation) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), operation), queue_.end());
}

bool LaunchOrder::arrived(const Launch& launch) {
    if (before_ == MPI_PROC_NULL)
        return true;
    receive_token();
    return has_token_ && token_ == launch;
}

void LaunchOrder::receive_token() {
    while (!has_token_) {
        if (next_token_ == MPI_REQUEST_NULL &&
            real::Irecv(&token_, sizeof token_, MPI_BYTE, before_, kTag, private_comm_, &next_token_) != MPI_SUCCESS)
            return;
        int done = 0;
        if (!progress::may_poll() || real::Test(&next_token_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
            return;
        const auto nobodys = std::find(given_up_.begin(), given_up_.end(), token_);
        has_token_ = nobodys == given_up_.end();
        if (!has_token_)
            given_up_.erase(nobodys);
    }
}

void LaunchOrder::pass_token(const Launch& launch) {
    has_token_ = false;
    if (after_ == MPI_PROC_NULL)
        return;
    if (!sent_.empty())
        sent_first();
    Sent& sent = sent_.emplace_back(Sent{launch});
    if (real::Isend(&sent.token, sizeof sent.token, MPI_BYTE, after_, kTag, private_comm_, &sent.request) !=
        MPI_SUCCESS)
        sent_.pop_back();
}

// Has MPI sent the oldest token? Then it is removed.
bool LaunchOrder::sent_first() {
    int done = 0;
    if (real::Test(&sent_.front().request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
        sent_.pop_front();
    return done != 0;
}

void LaunchOrder::give_up(const Launch& launch) {
    if (before_ == MPI_PROC_NULL)
        return;
    if (has_token_ && token_ == launch)
        has_token_ = false;
    else
        given_up_.push_back(launch);
}

void LaunchOrder::await_agreements() const {
    const auto none = [this] {
        const progress::Hold hold;
        return agreements == 0;
    };
    while (!none())
        progress::progress();
}

bool GpuClaim::begin(const nccl::Communicator* communicator) {
    if (has_)
        return true;
    const bool free = busy.operations == 0;
    if (!free && (busy.with != communicator || busy.waiting != 0)) {
        if (busy.with != communicator && !waits_) {
            waits_ = true;
            ++busy.waiting;
        }
        return false;
    }
    if (waits_)
        --busy.waiting;
    waits_ = false;
    has_ = true;
    busy.with = communicator;
    ++busy.operations;
    return true;
}

void GpuClaim::end() {
    if (waits_)
        --busy.waiting;
    if (has_)
        --busy.operations;
    has_ = waits_ = false;
}

}  // namespace swy::comm
