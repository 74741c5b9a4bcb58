// The idle communicators of this process, which a later MPI communicator of the same group may use, and those that are
// being destroyed.
#include <algorithm>
#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <utility>

#include "nccl/communicator.hpp"
#include "nccl/count_live.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

// How many seconds MPI_Finalize waits for communicators to be destroyed: a peer that has crashed never answers.
constexpr double kEndSeconds = 10;

struct Cache {
    std::mutex mutex;
    std::list<std::shared_ptr<Communicator>> idle;  // least recently used first
    std::list<std::shared_ptr<Communicator>> ending;
    Counters counters;
};

Cache& cache() {
    static auto* the_cache = new Cache;  // not destroyed at exit: a program that forgot MPI_Finalize leaves NCCL alone
    return *the_cache;
}

// Takes the least recently used communicator beyond the bound on which nothing is under way. Called under the cache's
// lock.
std::shared_ptr<Communicator> take_surplus() {
    auto& idle = cache().idle;
    if (idle.size() <= static_cast<std::size_t>(settings::values().comm_cache))
        return nullptr;
    const auto it = std::find_if(idle.begin(), idle.end(), [](const auto& c) { return !c->in_use(); });
    if (it == idle.end())
        return nullptr;
    std::shared_ptr<Communicator> surplus = std::move(*it);
    idle.erase(it);
    cache().counters.evicted += static_cast<long>(surplus->members());
    return surplus;
}

// Finds idle communicators that have no process beside those of a group.
class Within {
  public:
    explicit Within(const Group& group) {
        for (const Member& member : group)
            processes_.emplace(member.host, member.process);
    }
    bool operator()(const std::shared_ptr<Communicator>& communicator) const {
        const Group& group = communicator->group();
        return !communicator->in_use() && std::all_of(group.begin(), group.end(), [this](const Member& member) {
            return processes_.count({member.host, member.process}) != 0;
        });
    }

  private:
    std::set<std::pair<std::uint64_t, std::uint64_t>> processes_;
};

}  // namespace

void count_made(long members) {
    const std::scoped_lock lock(cache().mutex);
    Counters& counters = cache().counters;
    counters.made += members;
    counters.live += members;
    counters.live_max = std::max(counters.live_max, counters.live);
}

void count_gone(long members) {
    const std::scoped_lock lock(cache().mutex);
    cache().counters.live -= members;
}

std::uint64_t Communicator::idle_id(const Group& group) {
    const std::scoped_lock lock(cache().mutex);
    // Searches from the most recently used one: all members retired it at the same point of their programs, so they
    // usually choose the same.
    for (auto it = cache().idle.rbegin(); it != cache().idle.rend(); ++it)
        if ((*it)->group_ == group && !(*it)->in_use())
            return (*it)->id_;
    return 0;
}

std::shared_ptr<Communicator> Communicator::take_idle(const Group& group, std::uint64_t id) {
    const std::scoped_lock lock(cache().mutex);
    auto& idle = cache().idle;
    const auto it = std::find_if(idle.begin(), idle.end(),
                                 [&](const auto& c) { return c->id_ == id && c->group_ == group && !c->in_use(); });
    if (it == idle.end())
        return nullptr;
    std::shared_ptr<Communicator> found = std::move(*it);
    idle.erase(it);
    cache().counters.reused += static_cast<long>(found->members());
    return found;
}

void Communicator::retire(std::shared_ptr<Communicator> communicator) {
    if (communicator == nullptr)
        return;
    if (!communicator->usable() || !communicator->alive())
        return communicator->abort();
    std::shared_ptr<Communicator> evicted;
    {
        const std::scoped_lock lock(cache().mutex);
        cache().idle.push_back(std::move(communicator));
        evicted = take_surplus();
        cache().ending.remove_if([](const auto& c) { return c->step_end(); });
    }
    discard(std::move(evicted));
}

void Communicator::discard(std::shared_ptr<Communicator> communicator) {
    if (communicator != nullptr && communicator->start_end())
        finish_ending(std::move(communicator));
}

void Communicator::finish_ending(std::shared_ptr<Communicator> communicator) {
    const std::scoped_lock lock(cache().mutex);
    cache().ending.push_back(std::move(communicator));
}

bool Communicator::has_idle_within(const Group& group) {
    const std::scoped_lock lock(cache().mutex);
    const auto& idle = cache().idle;
    return std::any_of(idle.begin(), idle.end(), Within(group));
}

void Communicator::end_idle_within(const Group& group) {
    std::list<std::shared_ptr<Communicator>> ended;
    {
        const std::scoped_lock lock(cache().mutex);
        auto& idle = cache().idle;
        const Within within(group);
        for (auto it = idle.begin(); it != idle.end();)
            if (const auto one = it++; within(*one)) {
                cache().counters.evicted += static_cast<long>((*one)->members());
                ended.splice(ended.end(), idle, one);
            }
    }
    for (auto& communicator : ended)
        discard(std::move(communicator));
}

bool Communicator::ending() {
    const std::scoped_lock lock(cache().mutex);
    cache().ending.remove_if([](const auto& c) { return c->step_end(); });
    return !cache().ending.empty();
}

void Communicator::count_evicted() {
    const std::scoped_lock lock(cache().mutex);
    ++cache().counters.evicted;
}

void Communicator::end_all() {
    std::list<std::shared_ptr<Communicator>> ending;
    std::list<std::shared_ptr<Communicator>> idle;
    {
        const std::scoped_lock lock(cache().mutex);
        ending.swap(cache().ending);
        idle.swap(cache().idle);
    }
    for (auto& communicator : idle)
        if (communicator->start_end())
            ending.push_back(std::move(communicator));
    const progress::Deadline deadline(kEndSeconds);
    for (;;) {
        ending.remove_if([](const auto& c) { return c->step_end(); });
        if (ending.empty() || deadline.passed())
            return;
        progress::progress();
    }
}

Counters Communicator::counters() {
    const std::scoped_lock lock(cache().mutex);
    return cache().counters;
}

}  // namespace swy::nccl
