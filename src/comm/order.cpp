#include "comm/order.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "comm/world.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/wait.hpp"

namespace swy::comm {
namespace {

// All words have one, so that they come in the order in which they were sent.
constexpr int kTag = 1;

struct Busy {
    const carrier::nccl::Communicator* with = nullptr;
    int operations = 0;
    int waiting = 0;  // for another communicator's to end: those of `with` do not overtake them
};
Busy busy;

std::atomic<std::int64_t> last_number{0};  // of this process's orders

}  // namespace

int Order::make_shadow(const State& state, MPI_Comm* shadow) {
    // Not a duplicate: that would ask the program's attribute callbacks.
    MPI_Group group = MPI_GROUP_NULL;
    int rc = real::Comm_group(state.handle, &group);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_create(state.handle, group, shadow);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_set_errhandler(*shadow, MPI_ERRORS_RETURN);
    if (group != MPI_GROUP_NULL)
        real::Group_free(&group);
    return rc;
}

int Order::make(State& state) {
    std::shared_ptr<Order> order(new Order);
    // A rank without it would not agree where the others do: all have one or none has. And a number that none of them
    // has used.
    const std::array<std::int64_t, 2> mine{make_shadow(state, &order->shadow_) == MPI_SUCCESS ? 1 : 0, -++last_number};
    std::array<std::int64_t, 2> all{};
    const int rc = real::Allreduce(mine.data(), all.data(), mine.size(), MPI_INT64_T, MPI_MIN, state.handle);
    if (rc != MPI_SUCCESS || all[0] == 0)
        return rc;
    order->number_ = -all[1];
    last_number = std::max(last_number.load(), order->number_);
    order->find_place(state);
    order->owner_ = &state;
    state.order = std::move(order);
    return MPI_SUCCESS;
}

std::shared_ptr<Order> Order::adopt(State& state, MPI_Comm shadow) {
    std::shared_ptr<Order> order(new Order);
    order->shadow_ = shadow;
    order->find_place(state);
    return order;
}

void Order::find_place(State& state) {
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

Order::~Order() {
    int down = 0;
    real::Finalized(&down);
    if (down)
        return;
    if (next_word_ != MPI_REQUEST_NULL) {
        real::Cancel(&next_word_);
        real::Request_free(&next_word_);
    }
    while (!sent_.empty() && sent_first()) {
    }
    if (!sent_.empty())
        new std::deque<Sent>(std::move(sent_));
    if (shadow_ != MPI_COMM_NULL)
        real::Comm_free(&shadow_);
}

void Order::leave(const void* operation) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), operation), queue_.end());
}

bool Order::arrived(const Launch& launch) {
    if (before_ == MPI_PROC_NULL)
        return true;
    hear();
    return heard_ && word_ == launch;
}

void Order::hear() {
    while (!heard_) {
        if (next_word_ == MPI_REQUEST_NULL &&
            real::Irecv(&word_, sizeof word_, MPI_BYTE, before_, kTag, shadow_, &next_word_) != MPI_SUCCESS)
            return;
        int done = 0;
        if (!request::may_ask() || real::Test(&next_word_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
            return;
        const auto nobodys = std::find(given_up_.begin(), given_up_.end(), word_);
        heard_ = nobodys == given_up_.end();
        if (!heard_)
            given_up_.erase(nobodys);
    }
}

void Order::pass_on(const Launch& launch) {
    heard_ = false;
    if (after_ == MPI_PROC_NULL)
        return;
    if (!sent_.empty())
        sent_first();
    Sent& sent = sent_.emplace_back(Sent{launch});
    if (real::Isend(&sent.word, sizeof sent.word, MPI_BYTE, after_, kTag, shadow_, &sent.request) != MPI_SUCCESS)
        sent_.pop_back();
}

// Has MPI sent the oldest word? Then it is forgotten.
bool Order::sent_first() {
    int done = 0;
    if (real::Test(&sent_.front().request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
        sent_.pop_front();
    return done != 0;
}

void Order::give_up(const Launch& launch) {
    if (before_ == MPI_PROC_NULL)
        return;
    if (heard_ && word_ == launch)
        heard_ = false;
    else
        given_up_.push_back(launch);
}

void Order::await_agreements() const {
    const auto none = [this] {
        const request::Hold hold;
        return agreements == 0;
    };
    while (!none())
        request::progress();
}

bool Turn::begin(const carrier::nccl::Communicator* communicator) {
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

void Turn::end() {
    if (waits_)
        --busy.waiting;
    if (has_)
        --busy.operations;
    has_ = waits_ = false;
}

}  // namespace swy::comm
