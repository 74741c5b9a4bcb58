#include "comm/contribution.hpp"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "call/hash.hpp"
#include "comm/world.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

using call::mix;

std::uint64_t name_of(const std::vector<int>& ranks) {
    std::uint64_t name = 0;
    for (const int rank : ranks)
        name = mix(name, static_cast<std::uint64_t>(rank));
    return name;
}

bool is_inter(MPI_Comm comm) {
    int inter = 0;
    real::Comm_test_inter(comm, &inter);
    return inter != 0;
}

}  // namespace

struct Processes {
    std::uint64_t name = 0;
    std::atomic<std::uint64_t> calls{0};
};

namespace {

Processes& processes_of(State& state) {
    if (state.processes != nullptr) [[likely]]
        return *state.processes;
    static std::mutex mutex;
    static auto& all = *new std::map<std::uint64_t, Processes>;  // not destroyed at exit
    std::uint64_t name = name_of(group_in_world(state.handle, Group::kOwn));
    if (state.inter)  // the sum is alike on both sides
        name += name_of(group_in_world(state.handle, Group::kRemote));
    const std::scoped_lock lock(mutex);
    state.processes = &all[name];
    state.processes->name = name;
    return *state.processes;
}

}  // namespace

OperationId next_unnumbered(State& state) {
    Processes& processes = processes_of(state);
    return mix(processes.name, ++processes.calls << 2U);
}

OperationId numbered(State& state, Numbered by, std::uint64_t number) {
    return mix(processes_of(state).name, (number << 2U) + 1 + static_cast<std::uint64_t>(by));
}

OperationId start_of(OperationId what, std::uint64_t start) {
    return mix(what, start);
}

void Contribution::fail(const std::string& why) {
    if (what_ == 0)
        return;
    int rank = 0;
    real::Comm_rank(comm_, &rank);
    std::vector<int> world = group_in_world(comm_, Group::kOwn);
    if (is_inter(comm_)) {
        rank = world[static_cast<std::size_t>(rank)];
        for (const int other : group_in_world(comm_, Group::kRemote))
            world.push_back(other);
    }
    announcement_ = std::make_unique<Announcement>(world, rank, what_, why);
}

bool Contribution::told() {
    return announcement_ == nullptr || announcement_->done();
}

std::string Contribution::failure_elsewhere() const {
    Failure first;
    if (what_ == 0)
        return {};
    receive_failures();
    if (!failure_known(what_, &first))
        return {};
    forget_failures(what_);
    return fmt::format("rank {}{} has failed before it could pass its data: {}", first.rank,
                       is_inter(comm_) ? " of MPI_COMM_WORLD" : "", first.why);
}

}  // namespace swy::comm
