#include "nccl/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>

#include "call/hash.hpp"
#include "nccl/library.hpp"
#include "progress/keep_until.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

// How many seconds MPI_Finalize waits for communicators to be finalized before it aborts them: a peer that has crashed
// never answers.
constexpr double kEndSeconds = 10;

struct Cache {
    std::mutex mutex;
    std::list<std::shared_ptr<Communicator>> idle;    // least recently used first
    std::list<std::shared_ptr<Communicator>> ending;  // ncclCommFinalize is under way
    Counters counters;
};

Cache& cache() {
    static auto* the_cache = new Cache;  // not destroyed at exit: a program that forgot MPI_Finalize leaves NCCL alone
    return *the_cache;
}

static_assert(sizeof(ncclUniqueId) == kUniqueIdBytes);

void count_gone() {
    const std::scoped_lock lock(cache().mutex);
    --cache().counters.live;
}

// Takes the least recently used communicator beyond the bound on which nothing is under way. Called under the cache's
// lock.
std::shared_ptr<Communicator> take_surplus() {
    auto& idle = cache().idle;
    if (idle.size() <= static_cast<std::size_t>(settings::values().comm_cache))
        return nullptr;
    const auto it = std::find_if(idle.begin(), idle.end(), [](const auto& c) { return !c->in_transfer(); });
    if (it == idle.end())
        return nullptr;
    std::shared_ptr<Communicator> surplus = std::move(*it);
    idle.erase(it);
    ++cache().counters.evicted;
    return surplus;
}

}  // namespace

std::uint64_t Communicator::id_of(const UniqueId& unique) {
    return call::fnv1a(unique) | 1;
}

std::string Communicator::draw(UniqueId& id) {
    const Entries* nccl = load();
    if (nccl == nullptr)
        return problem();
    ncclUniqueId drawn;
    if (const ncclResult_t result = nccl->GetUniqueId(&drawn); result != ncclSuccess)
        return fmt::format("ncclGetUniqueId failed: {}", describe(result, nullptr));
    std::memcpy(id.data(), &drawn, kUniqueIdBytes);
    return {};
}

bool Communicator::takes_several_ids() {
    const Entries* nccl = load();
    return nccl != nullptr && nccl->CommInitRankScalable != nullptr;
}

std::shared_ptr<Communicator> Communicator::begin(const Group& group, int rank, std::span<const UniqueId> ids,
                                                  device::Context context, int channels, std::string& problem_text) {
    const Entries* nccl = load();
    if (nccl == nullptr) {
        problem_text = problem();
        return nullptr;
    }
    std::shared_ptr<Communicator> made(new Communicator(group, rank, id_of(ids.front())));
    if (const device::Result result = device::Stream::acquire(context, made->device_stream_); result != 0) {
        problem_text = fmt::format("no CUDA stream for NCCL: {}", device::describe(result));
        return nullptr;
    }
    const device::ContextScope scope(context);
    std::vector<ncclUniqueId> unique(ids.size());
    std::memcpy(unique.data(), ids.data(), ids.size_bytes());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // a peer that has failed must not hold this process inside NCCL
    if (channels != 0) {
        config.minCTAs = 1;
        config.maxCTAs = channels;
    }
    ncclComm_t handle = nullptr;
    if (ids.size() > 1)
        made->made_by_ = "ncclCommInitRankScalable";
    const ncclResult_t result = ids.size() > 1
                                    ? nccl->CommInitRankScalable(&handle, made->size(), rank,
                                                                 static_cast<int>(ids.size()), unique.data(), &config)
                                    : nccl->CommInitRankConfig(&handle, made->size(), unique[0], rank, &config);
    made->adopt(handle);
    if (result == ncclSuccess || result == ncclInProgress)
        return made;
    problem_text = fmt::format("{} failed: {}", made->made_by_, describe(result, handle));
    made->abort();
    return nullptr;
}

void Communicator::adopt(ncclComm* handle) {
    handle_ = handle;
    if (handle == nullptr)
        return;
    const std::scoped_lock lock(cache().mutex);
    Counters& counters = cache().counters;
    counters.live_max = std::max(counters.live_max, ++counters.live);
}

Communicator::Making Communicator::step_make(std::string& problem_text) {
    if (parent_ != nullptr)
        if (const Making made = step_child(problem_text); made != Making::kMade)
            return made;
    if (handle_ == nullptr || made_)
        return made_ ? Making::kMade : Making::kFailed;
    const int now = state();
    if (now == ncclInProgress)
        return Making::kUnderWay;
    if (now == ncclSuccess) {
        made_ = true;
        const std::scoped_lock lock(cache().mutex);
        ++cache().counters.made;
        cache().counters.split += split_off_ ? 1 : 0;
        return Making::kMade;
    }
    problem_text = fmt::format("{} failed: {}", made_by_, describe(static_cast<ncclResult_t>(now), handle_));
    abort();
    return Making::kFailed;
}

std::shared_ptr<Communicator> Communicator::make(const Group& group, int rank, std::span<const UniqueId> ids,
                                                 device::Context context, const std::function<bool()>& given_up,
                                                 std::string& problem_text) {
    const progress::Deadline deadline(settings::values().timeout);
    auto made = begin(group, rank, ids, context, 0, problem_text);
    while (made != nullptr) {
        switch (made->step_make(problem_text)) {
            case Making::kMade:
                return made;
            case Making::kFailed:
                return nullptr;
            case Making::kUnderWay:
                break;
        }
        progress::progress();
        const bool late = deadline.passed();
        if (late)
            problem_text = fmt::format("{} failed: SWITCHYARD_TIMEOUT has passed", made->made_by_);
        if (late || given_up()) {
            made->abort();
            return nullptr;
        }
    }
    return nullptr;
}

Communicator::~Communicator() = default;  // the handle has been destroyed or is left to the process's end

std::string Communicator::wait_launched(int result, const progress::Deadline& deadline) {
    while (result == ncclInProgress) {
        progress::progress();
        if (deadline.passed())
            return "SWITCHYARD_TIMEOUT has passed";
        if (std::string other = failure_elsewhere(); !other.empty())
            return other;
        const auto lock = hold_handle();
        if (!usable())
            return why_unusable();
        result = state();
    }
    return result == ncclSuccess ? std::string{} : describe(static_cast<ncclResult_t>(result), handle_);
}

int Communicator::state() const {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t asked = load()->CommGetAsyncError(handle_, &now);
    return asked != ncclSuccess ? asked : now;
}

std::string Communicator::failure_here() {
    const auto lock = hold_handle();
    if (!usable())
        return why_unusable();
    const int now = state();
    return now == ncclSuccess || now == ncclInProgress ? std::string{}
                                                       : describe(static_cast<ncclResult_t>(now), handle_);
}

std::string Communicator::trouble() {
    std::string why = failure_here();
    return why.empty() ? failure_elsewhere() : why;
}

std::string Communicator::finish(const progress::Deadline& deadline) {
    if (const device::Result recorded = device_stream_.record(); recorded != 0)
        return device::describe(recorded);
    for (;;) {
        bool done = false;
        if (const device::Result queried = device_stream_.query(done); queried != 0)
            return device::describe(queried);
        std::string why = done ? failure_here() : trouble();
        if (done || !why.empty())
            return why;
        if (deadline.passed())
            return "SWITCHYARD_TIMEOUT has passed: all ranks had entered the call, the transfer did not finish";
        progress::progress();
    }
}

std::string Communicator::failure_elsewhere() {
    std::string why = failures_ != nullptr ? failures_->known() : std::string{};
    if (!why.empty())
        failure_known_.store(true);
    return why;
}

void Communicator::fail(const std::string& why) {
    if (failures_ != nullptr && !failure_known_.exchange(true))
        failures_->tell(why);
    {
        const auto lock = hold_handle();
        if (failure_.empty())
            failure_ = why;
    }
    abort();
}

std::string Communicator::why_unusable() const {
    const std::string what = "its NCCL communicator was aborted after an error";
    return failure_.empty() ? what : fmt::format("{}: {}", what, failure_);
}

void Communicator::abort() {
    if (parent_ != nullptr)
        give_up_child();
    std::unique_lock lock(handle_mutex_);
    ncclComm_t handle = std::exchange(handle_, nullptr);
    const std::shared_ptr<Split> split = std::exchange(split_, nullptr);
    split_pending_ = false;
    lock.unlock();
    if (handle == nullptr)
        return;
    // A context that was reset or destroyed took NCCL's resources with it, and NCCL would touch them.
    if (device_stream_.alive()) {
        const device::ContextScope scope(context());
        load()->CommAbort(handle);
    } else if (split != nullptr) {
        progress::keep_for_ever(std::shared_ptr(split));  // NCCL may still write there
    }
    count_gone();
}

bool Communicator::start_end() {
    if (being_split())
        return true;  // NCCL accepts the call when the split is done
    if (handle_ == nullptr)
        return false;
    if (!device_stream_.alive()) {
        abort();
        return false;
    }
    const device::ContextScope scope(context());
    const ncclResult_t result = load()->CommFinalize(handle_);
    if (result != ncclSuccess && result != ncclInProgress) {
        abort();
        return false;
    }
    ending_ = true;
    return true;
}

bool Communicator::step_end() {
    if (!ending_) {
        std::string ignored;
        if (splitting() || (parent_ != nullptr && step_make(ignored) == Making::kUnderWay))
            return false;
        if (!start_end())
            return true;
    }
    if (handle_ == nullptr)
        return true;
    const int now = state();
    if ((now != ncclSuccess && now != ncclInProgress) || !failure_elsewhere().empty()) {
        abort();
        return true;
    }
    if (now == ncclInProgress)
        return false;
    const device::ContextScope scope(context());
    load()->CommDestroy(std::exchange(handle_, nullptr));
    count_gone();
    return true;
}

std::uint64_t Communicator::idle_id(const Group& group) {
    const std::scoped_lock lock(cache().mutex);
    // Searches from the most recently used one: all members retired it at the same point of their programs, so they
    // usually choose the same.
    for (auto it = cache().idle.rbegin(); it != cache().idle.rend(); ++it)
        if ((*it)->group_ == group && !(*it)->in_transfer())
            return (*it)->id_;
    return 0;
}

std::shared_ptr<Communicator> Communicator::take_idle(const Group& group, std::uint64_t id) {
    const std::scoped_lock lock(cache().mutex);
    auto& idle = cache().idle;
    const auto it = std::find_if(idle.begin(), idle.end(), [&](const auto& c) {
        return c->id_ == id && c->group_ == group && !c->in_transfer();
    });
    if (it == idle.end())
        return nullptr;
    std::shared_ptr<Communicator> found = std::move(*it);
    idle.erase(it);
    ++cache().counters.reused;
    return found;
}

void Communicator::retire(std::shared_ptr<Communicator> communicator) {
    if (communicator == nullptr || (!communicator->usable() && !communicator->being_split()))
        return;
    std::shared_ptr<Communicator> evicted;
    {
        const std::scoped_lock lock(cache().mutex);
        cache().idle.push_back(std::move(communicator));
        evicted = take_surplus();
    }
    discard(std::move(evicted));
    std::list<std::shared_ptr<Communicator>> ending;
    {
        const std::scoped_lock lock(cache().mutex);
        ending.swap(cache().ending);
    }
    ending.remove_if([](const auto& c) { return c->step_end(); });
    const std::scoped_lock lock(cache().mutex);
    cache().ending.splice(cache().ending.end(), ending);
}

void Communicator::discard(std::shared_ptr<Communicator> communicator) {
    if (communicator != nullptr && communicator->start_end())
        finish_ending(std::move(communicator));
}

void Communicator::finish_ending(std::shared_ptr<Communicator> communicator) {
    const std::scoped_lock lock(cache().mutex);
    cache().ending.push_back(std::move(communicator));
}

void Communicator::count_evicted() {
    const std::scoped_lock lock(cache().mutex);
    ++cache().counters.evicted;
}

void Communicator::count_reused(long number) {
    const std::scoped_lock lock(cache().mutex);
    cache().counters.reused += number;
}

void Communicator::end_all() {
    std::list<std::shared_ptr<Communicator>> ending;
    {
        const std::scoped_lock lock(cache().mutex);
        ending.swap(cache().ending);
        for (auto& communicator : cache().idle)
            ending.push_back(std::move(communicator));
        cache().idle.clear();
    }
    ending.remove_if([](const auto& c) { return !c->ending_ && !c->start_end(); });
    const progress::Deadline deadline(kEndSeconds);
    while (!ending.empty() && !deadline.passed()) {
        ending.remove_if([](const auto& c) { return c->step_end(); });
        progress::progress();
    }
    for (const auto& communicator : ending)
        communicator->abort();
}

Counters Communicator::counters() {
    // A communicator that was freed while its set-up was pending is found to be made when NCCL is asked. This is not
    // done under the lock: it waits with MPI's progress, which may come back here.
    std::list<std::shared_ptr<Communicator>> idle;
    {
        const std::scoped_lock lock(cache().mutex);
        idle.swap(cache().idle);
    }
    std::string ignored;
    for (const auto& communicator : idle)
        communicator->step_make(ignored);
    const std::scoped_lock lock(cache().mutex);
    cache().idle.splice(cache().idle.begin(), idle);
    return cache().counters;
}

}  // namespace swy::nccl
