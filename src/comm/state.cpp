#include "comm/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <unordered_set>

#include "call/comm_name.hpp"
#include "comm/buffer_slots.hpp"
#include "comm/collective_setup.hpp"
#include "comm/launch_order.hpp"
#include "comm/merged.hpp"
#include "error/loss.hpp"
#include "nccl/communicator.hpp"
#include "progress/stall.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

int key = MPI_KEYVAL_INVALID;
MPI_Group world_group = MPI_GROUP_NULL;

std::mutex states_mutex;
// Not destroyed at exit: a program may end without MPI_Finalize, and NCCL is then left alone.
std::unordered_set<State*>& states() {
    static auto* all = new std::unordered_set<State*>;
    return *all;
}

// A thread remembers the communicator that it used last. Freeing any state makes what all threads remember stale: MPI
// uses handles again.
std::atomic<std::uint64_t> generation{1};
struct Remembered {
    MPI_Comm comm;
    State* state;
    std::uint64_t generation;
};
constinit thread_local Remembered remembered __attribute__((tls_model("initial-exec"))) = {};  // as call::depth

constinit thread_local Freeing* freeing __attribute__((tls_model("initial-exec"))) = nullptr;

void forget(State* state) {
    Freeing::has(state->handle, nullptr);
    generation.fetch_add(1, std::memory_order_acq_rel);
    {
        const std::scoped_lock lock(states_mutex);
        states().erase(state);
    }
    if (state->order != nullptr) {
        const auto describe = [state] {
            return fmt::format(
                "MPI_Comm_free on rank {} of {} ({} ranks): not all ranks have made the collectives on it that do not "
                "block",
                state->rank, call::comm_name(state->handle), state->size);
        };
        const progress::Waiting waiting(describe);
        state->order->await_agreements();
        await_setup(*state);
        state->order->owner_is_gone();
    }
    adopt_setup(*state);
    if (state->slots != nullptr) {
        state->slots->await();
        state->slots->retire();
    }
    if (on_free != nullptr)
        on_free(state->handle);
    nccl::Communicator::retire(std::move(state->nccl));
    end_merged(*state);
    if (!state->given_up)
        delete state;
}

extern "C" int swy_comm_state_delete(MPI_Comm, int, void* value, void*) {
    forget(static_cast<State*>(value));
    return MPI_SUCCESS;
}

bool has_members_outside(MPI_Comm comm, bool inter) {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Group common = MPI_GROUP_NULL;
    int members = 0;
    int ours = 0;
    auto count = [&](auto get_group) {
        get_group(comm, &group);
        real::Group_intersection(group, world_group, &common);
        int n = 0;
        real::Group_size(group, &n);
        members += n;
        real::Group_size(common, &n);
        ours += n;
        real::Group_free(&group);
        if (common != MPI_GROUP_EMPTY)
            real::Group_free(&common);
    };
    count(real::Comm_group);
    if (inter)
        count(real::Comm_remote_group);
    return members != ours;
}

State* attached(MPI_Comm comm, bool& valid) {
    void* value = nullptr;
    int found = 0;
    valid = real::Comm_get_attr(comm, key, static_cast<void*>(&value), &found) == MPI_SUCCESS;
    return valid && found ? static_cast<State*>(value) : nullptr;
}

// Several threads may be the first to use a communicator, in point-to-point.
State* make(MPI_Comm comm) {
    static constinit std::mutex making;
    const std::scoped_lock one_at_a_time(making);
    bool valid = false;
    if (State* other = attached(comm, valid); other != nullptr)
        return other;
    auto* state = new (std::nothrow) State;
    if (state == nullptr)
        return nullptr;
    int inter = 0;
    real::Comm_rank(comm, &state->rank);
    real::Comm_size(comm, &state->size);
    real::Comm_test_inter(comm, &inter);
    state->handle = comm;
    state->inter = inter != 0;
    state->spans_jobs = has_members_outside(comm, state->inter);
    if (real::Comm_set_attr(comm, key, state) != MPI_SUCCESS) {
        delete state;
        return nullptr;
    }
    Freeing::has(comm, state);
    const std::scoped_lock lock(states_mutex);
    states().insert(state);
    return state;
}

}  // namespace

constinit Farewell on_free = nullptr;

bool State::needs_setup(int device) const {
    return !setup_given_up && (device != ordinal || nccl_failed());
}

bool State::nccl_failed() const {
    return nccl != nullptr && !nccl->usable();
}

State* of(MPI_Comm comm) {
    if (State* state = lately_used(comm); state != nullptr)
        return state;
    const std::uint64_t now = generation.load(std::memory_order_acquire);
    if (key == MPI_KEYVAL_INVALID)
        return nullptr;
    bool valid = false;
    State* state = attached(comm, valid);
    if (!valid)
        return nullptr;
    if (state == nullptr)
        state = make(comm);
    if (state != nullptr)
        remembered = {comm, state, now};
    return state;
}

State* lately_used(MPI_Comm comm) {
    const bool same = remembered.comm == comm && remembered.generation == generation.load(std::memory_order_acquire);
    return same ? remembered.state : nullptr;
}

State* known(MPI_Comm comm) {
    bool valid = false;
    return key != MPI_KEYVAL_INVALID ? attached(comm, valid) : nullptr;
}

bool leave(MPI_Comm comm) {
    const State* state = comm != MPI_COMM_NULL ? known(comm) : nullptr;
    return state != nullptr && state->given_up && real::Comm_delete_attr(comm, key) == MPI_SUCCESS;
}

bool lives(MPI_Comm comm) {
    const std::scoped_lock lock(states_mutex);
    return std::any_of(states().begin(), states().end(), [&](const State* state) { return state->handle == comm; });
}

bool revoke_private_comms() {
    bool any = false;
    const std::scoped_lock lock(states_mutex);
    for (State* state : states()) {
        if (state->revoked || !error::is_revoked(state->handle))
            continue;
        state->revoked = any = true;
        if (state->merged != MPI_COMM_NULL)
            error::revoke(state->merged);
        if (state->order != nullptr)
            state->order->revoke();
    }
    return any;
}

Freeing::Freeing(MPI_Comm comm) : comm_(comm), outer_(freeing) {
    freeing = this;
}

Freeing::~Freeing() {
    freeing = outer_;
}

int Freeing::done(int code) {
    if (late_ != nullptr && code == MPI_SUCCESS)
        forget(late_);
    return code;
}

void Freeing::has(MPI_Comm comm, State* state) {
    for (Freeing* one = freeing; one != nullptr; one = one->outer_)
        if (one->comm_ == comm)
            one->late_ = state;
}

int start() {
    const int rc = real::Comm_create_keyval(MPI_COMM_NULL_COPY_FN, swy_comm_state_delete, &key, nullptr);
    return rc != MPI_SUCCESS ? rc : real::Comm_group(MPI_COMM_WORLD, &world_group);
}

void stop() {
    for (;;) {
        State* state = nullptr;
        {
            const std::scoped_lock lock(states_mutex);
            if (states().empty())
                break;
            state = *states().begin();
        }
        real::Comm_delete_attr(state->handle, key);  // calls swy_comm_state_delete
    }
    real::Group_free(&world_group);
    real::Comm_free_keyval(&key);
}

}  // namespace swy::comm
