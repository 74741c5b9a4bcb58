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

// MPI 4.0 section 3.2.3: tags up to 32767 are there.
int tag_of(std::uint64_t number) {
    constexpr std::uint64_t kTags = 30000;
    return static_cast<int>(number % kTags);
}

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
    if (!down && shadow_ != MPI_COMM_NULL)
        real::Comm_free(&shadow_);
}

void Order::leave(const void* operation) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), operation), queue_.end());
}

bool Order::arrived(std::uint64_t number) {
    if (before_ == MPI_PROC_NULL || arrived_)
        return true;
    if (word_ == MPI_REQUEST_NULL &&
        real::Irecv(nullptr, 0, MPI_BYTE, before_, tag_of(number), shadow_, &word_) != MPI_SUCCESS)
        return false;
    int done = 0;
    if (request::may_ask() && real::Test(&word_, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
        arrived_ = true;
    return arrived_;
}

void Order::pass_on(std::uint64_t number) {
    arrived_ = false;
    MPI_Request sent = MPI_REQUEST_NULL;
    if (after_ != MPI_PROC_NULL &&
        real::Isend(nullptr, 0, MPI_BYTE, after_, tag_of(number), shadow_, &sent) == MPI_SUCCESS)
        real::Request_free(&sent);
}

void Order::give_up() {
    arrived_ = false;
    if (word_ == MPI_REQUEST_NULL)
        return;
    real::Cancel(&word_);
    real::Request_free(&word_);
}

// What MPI has under way between two processes keeps a communicator alive, unlike a collective. This receive is of a
// message that nobody sends: from this process, with the greatest tag.
void Order::leave_agreement(MPI_Comm comm) {
    --agreements;
    int rank = 0, found = 0;
    int* greatest = nullptr;
    MPI_Request never = MPI_REQUEST_NULL;
    real::Comm_rank(comm, &rank);
    real::Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&greatest), &found);
    if (found)
        real::Irecv(nullptr, 0, MPI_BYTE, rank, *greatest, comm, &never);
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
