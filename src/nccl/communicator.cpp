#include "nccl/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "call/hash.hpp"
#include "nccl/background.hpp"
#include "nccl/count_live.hpp"
#include "nccl/group_call.hpp"
#include "nccl/job.hpp"
#include "nccl/library.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

static_assert(sizeof(ncclUniqueId) == kUniqueIdBytes);

constexpr const char* kNoThread = "no thread could be made for it";

const char* set_up_by(std::size_t ids) {
    return ids > 1 ? "ncclCommInitRankScalable" : "ncclCommInitRankConfig";
}

std::string failed(const char* function, ncclResult_t result) {
    return fmt::format("{} failed: {}", function, nccl::describe(result, nullptr));
}

}  // namespace

// NCCL's handles of this process's members. Threads that are inside NCCL with them have a share in them, and the last
// one that comes out ends what has been aborted meanwhile.
struct Communicator::Handles {
    explicit Handles(std::span<const device::Context> of_members)
        : contexts(of_members.begin(), of_members.end()), handles(of_members.size()) {}

    const std::vector<device::Context> contexts;
    std::mutex mutex;  // of what follows
    std::vector<ncclComm_t> handles;
    int inside = 0;  // threads
    bool aborted = false, ending = false;
    std::vector<std::shared_ptr<void>> operations;

    // Runs `work` on a thread that is inside NCCL meanwhile. The caller holds the mutex, or no other thread knows of
    // the handles yet. Returns nullptr when there can be no thread.
    static std::shared_ptr<Background> enter_nccl(const std::shared_ptr<Handles>& handles, std::size_t member,
                                                  std::function<std::string()> work) {
        ++handles->inside;
        auto thread = Background::start(handles->contexts[member], [handles, work = std::move(work)] {
            std::string failure = work();
            handles->leave_nccl();
            return failure;
        });
        if (thread == nullptr)
            --handles->inside;
        return thread;
    }

    void leave_nccl() {
        bool end = false;
        {
            const std::scoped_lock lock(mutex);
            end = --inside == 0 && aborted;
        }
        if (end)
            abort_all();
    }

    // Called when no thread is inside NCCL and none will be: what operations own may go when NCCL has let go of it.
    void abort_all() {
        for (std::size_t i = 0; i < handles.size(); ++i)
            if (ncclComm_t handle = std::exchange(handles[i], nullptr); handle != nullptr) {
                const device::ContextScope scope(contexts[i]);
                load()->CommAbort(handle);
            }
        operations.clear();
    }

    // NCCL ends a communicator when all members have been told to, those of this process among them.
    std::string destroy_all() {
        bool finalized = true;
        for (std::size_t i = 0; i < handles.size(); ++i) {
            const device::ContextScope scope(contexts[i]);
            finalized &= load()->CommFinalize(handles[i]) == ncclSuccess;
        }
        for (std::size_t i = 0; i < handles.size(); ++i) {
            const device::ContextScope scope(contexts[i]);
            finalized ? load()->CommDestroy(handles[i]) : load()->CommAbort(handles[i]);
        }
        return {};
    }
};

struct Communicator::Connected {
    std::vector<bool> sends, receives;

    // Those of the peers that are not connected.
    static std::vector<int> others(const std::vector<bool>& known, const std::vector<int>& peers) {
        std::vector<int> others;
        for (const int peer : peers)
            if (const auto at = static_cast<std::size_t>(peer); at >= known.size() || !known[at])
                others.push_back(peer);
        return others;
    }
    static void add(std::vector<bool>& known, const std::vector<int>& peers, int size) {
        known.resize(static_cast<std::size_t>(size));
        for (const int peer : peers)
            known[static_cast<std::size_t>(peer)] = true;
    }
};

std::uint64_t Communicator::id_of(const UniqueId& unique) {
    return call::fnv1a(unique) | 1;
}

std::string Communicator::draw(UniqueId& id) {
    const Entries* nccl = load();
    if (nccl == nullptr)
        return problem();
    ncclUniqueId drawn;
    if (const ncclResult_t result = nccl->GetUniqueId(&drawn); result != ncclSuccess)
        return failed("ncclGetUniqueId", result);
    std::memcpy(id.data(), &drawn, kUniqueIdBytes);
    return {};
}

bool Communicator::takes_several_ids() {
    const Entries* nccl = load();
    return nccl != nullptr && nccl->CommInitRankScalable != nullptr;
}

Communicator::Communicator(const Plan& plan)
    : group_(plan.group),
      first_(plan.first),
      id_(id_of(plan.ids.front())),
      handles_(std::make_shared<Handles>(plan.contexts)),
      device_streams_(plan.contexts.size()),
      connected_(plan.contexts.size()) {}

Communicator::~Communicator() = default;  // the handles have been destroyed or are left to the process's end

// Each member is set up by a thread of its own: one after the other, those of a process would wait for each other.
std::string Communicator::begin_member(const Plan& plan, std::size_t member) {
    if (const device::Result result = device::Stream::acquire(plan.contexts[member], device_streams_[member]);
        result != 0)
        return fmt::format("no CUDA stream for NCCL: {}", device::describe(result));
    std::vector<ncclUniqueId> ids(plan.ids.size());
    std::memcpy(ids.data(), plan.ids.data(), plan.ids.size_bytes());
    const auto set_up = [handles = handles_, ids = std::move(ids), size = size(), member,
                         rank = first_ + static_cast<int>(member), channels = plan.channels]() mutable -> std::string {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 1;
        config.minCTAs = 1;
        config.maxCTAs = channels;
        const Entries& nccl = *load();
        ncclComm_t handle = nullptr;
        const ncclResult_t result =
            ids.size() > 1
                ? nccl.CommInitRankScalable(&handle, size, rank, static_cast<int>(ids.size()), ids.data(), &config)
                : nccl.CommInitRankConfig(&handle, size, ids.front(), rank, &config);
        if (result != ncclSuccess)
            return failed(set_up_by(ids.size()), result);
        const std::scoped_lock lock(handles->mutex);
        handles->handles[member] = handle;
        return {};
    };
    const std::scoped_lock lock(handles_->mutex);
    making_.push_back(Handles::enter_nccl(handles_, member, set_up));
    return making_.back() != nullptr ? std::string{}
                                     : fmt::format("{} failed: {}", set_up_by(plan.ids.size()), kNoThread);
}

std::shared_ptr<Communicator> Communicator::begin(const Plan& plan, std::string& problem_text) {
    if (load() == nullptr) {
        problem_text = problem();
        return nullptr;
    }
    std::shared_ptr<Communicator> made(new Communicator(plan));
    for (std::size_t member = 0; member < plan.contexts.size() && problem_text.empty(); ++member)
        problem_text = made->begin_member(plan, member);
    if (problem_text.empty())
        return made;
    made->abort();
    return nullptr;
}

Communicator::Making Communicator::step_make(std::string& problem_text) {
    if (made_)
        return Making::kMade;
    bool all_done = true;
    for (const auto& thread : making_) {
        if (!thread->done())
            all_done = false;
        else if (problem_text.empty())
            problem_text = thread->failure();
    }
    if (!problem_text.empty()) {
        abort();
        return Making::kFailed;
    }
    if (!all_done)
        return Making::kUnderWay;
    making_.clear();
    made_ = true;
    count_made(static_cast<long>(members()));
    return Making::kMade;
}

ncclComm* Communicator::handle(std::size_t member) const {
    return handles_->handles[member];
}

std::unique_lock<std::mutex> Communicator::hold_handles() {
    return std::unique_lock(handles_->mutex);
}

bool Communicator::usable() const {
    return made_.load(std::memory_order_relaxed);
}

bool Communicator::alive() const {
    return std::all_of(device_streams_.begin(), device_streams_.end(),
                       [](const device::Stream& device_stream) { return device_stream.alive(); });
}

void Communicator::enter(std::shared_ptr<void> operation) {
    const std::scoped_lock lock(handles_->mutex);
    handles_->operations.push_back(std::move(operation));
}

// What has been aborted keeps its operations until NCCL has let go of them.
void Communicator::leave(const void* operation) {
    std::shared_ptr<void> gone;  // destroyed after the lock is released
    const std::scoped_lock lock(handles_->mutex);
    auto& all = handles_->operations;
    const auto it = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.get() == operation; });
    if (handles_->aborted || it == all.end())
        return;
    gone = std::move(*it);
    all.erase(it);
}

bool Communicator::in_use() const {
    const std::scoped_lock lock(handles_->mutex);
    return !handles_->operations.empty();
}

std::vector<Peers> Communicator::not_connected(std::span<const Peers> peers) const {
    std::vector<Peers> all;
    bool any = false;
    for (std::size_t member = 0; member < peers.size(); ++member) {
        const Connected& connected = connected_[member];
        all.push_back({Connected::others(connected.sends, peers[member].sends),
                       Connected::others(connected.receives, peers[member].receives)});
        any |= !all.back().sends.empty() || !all.back().receives.empty();
    }
    return any ? all : std::vector<Peers>();
}

// Sends nothing to these ranks, and receives nothing from them, which connects them: each of them does the same.
std::string Communicator::greet(const std::vector<Peers>& peers) {
    const Entries& nccl = *load();
    GroupCall group(nccl);
    for (std::size_t member = 0; member < peers.size(); ++member) {
        const device::ContextScope scope(context(member));
        cudaStream_t stream = device_streams_[member].stream();
        for (const int peer : peers[member].sends)
            if (peer != first_ + static_cast<int>(member))
                group.add(nccl.Send(nullptr, 0, ncclInt8, peer, handle(member), stream));
        for (const int peer : peers[member].receives)
            if (peer != first_ + static_cast<int>(member))
                group.add(nccl.Recv(nullptr, 0, ncclInt8, peer, handle(member), stream));
    }
    const ncclResult_t result = group.end();
    return result == ncclSuccess ? std::string{} : nccl::describe(result, nullptr);
}

bool Communicator::launch(std::span<const Peers> peers, std::uint64_t shape, std::size_t steps,
                          std::function<std::string()> queue) {
    std::vector<Peers> missing = not_connected(peers);
    const bool is_new = shape != 0 && connects_collectives_late() && !shapes_.contains(shape);
    const bool connects = !missing.empty() || is_new;
    if (connects && under_way_ != 0)
        return false;
    ++under_way_;
    if (!connects) {
        launch_failure_ = queue();
        return true;
    }
    for (std::size_t member = 0; member < missing.size(); ++member) {
        Connected::add(connected_[member].sends, missing[member].sends, size());
        Connected::add(connected_[member].receives, missing[member].receives, size());
    }
    if (steps == 1)
        missing.clear();  // its own calls connect them
    launch_failure_.clear();
    launching_shape_ = is_new ? shape : 0;
    launching_ = Handles::enter_nccl(
        handles_, 0, [self = shared_from_this(), missing = std::move(missing), queue = std::move(queue)] {
            std::string failure = missing.empty() ? std::string{} : self->greet(missing);
            return failure.empty() ? queue() : failure;
        });
    if (launching_ == nullptr)
        launch_failure_ = kNoThread;
    return true;
}

// NCCL has connected the ranks for the algorithm that it chooses for such a collective, and chooses the same again.
void Communicator::know(std::uint64_t shape) {
    constexpr std::size_t kMany = 4096;
    if (shapes_.size() == kMany)
        shapes_.clear();
    shapes_.insert(shape);
}

std::optional<std::string> Communicator::launched() {
    if (launching_ != nullptr && !launching_->done())
        return std::nullopt;
    if (launching_ != nullptr) {
        launch_failure_ = launching_->failure();
        if (launching_shape_ != 0 && launch_failure_.empty())
            know(launching_shape_);
    }
    launching_ = nullptr;
    return launch_failure_;
}

int Communicator::state() const {
    for (ncclComm_t handle : handles_->handles) {
        ncclResult_t now = ncclSuccess;
        const ncclResult_t asked = load()->CommGetAsyncError(handle, &now);
        if (asked != ncclSuccess || now != ncclSuccess)
            return asked != ncclSuccess ? asked : now;
    }
    return ncclSuccess;
}

std::string Communicator::describe(int result) const {
    return nccl::describe(static_cast<ncclResult_t>(result), handles_->handles.front());
}

std::string Communicator::failure_here() {
    const auto lock = hold_handles();
    if (!usable())
        return why_unusable();
    const int now = state();
    return now == ncclSuccess ? std::string{} : describe(now);
}

std::string Communicator::trouble() {
    std::string why = failure_here();
    return why.empty() ? failure_elsewhere() : why;
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
    abort(why);
}

std::string Communicator::why_unusable() const {
    const std::string what = "its NCCL communicator was aborted after an error";
    return failure_.empty() ? what : fmt::format("{}: {}", what, failure_);
}

void Communicator::abort(const std::string& why) {
    {
        const auto lock = hold_handles();
        if (failure_.empty())
            failure_ = why;
    }
    abort();
}

void Communicator::abort() {
    if (begin_abort())
        finish_ending(shared_from_this());
}

// Returns whether a thread is aborting it now.
bool Communicator::begin_abort() {
    std::vector<std::shared_ptr<void>> operations;  // destroyed after the lock is released
    const std::scoped_lock lock(handles_->mutex);
    auto& all = handles_->handles;
    if (handles_->ending || std::exchange(handles_->aborted, true))
        return false;
    if (made_.exchange(false))
        count_gone(static_cast<long>(members()));
    // A context that was reset or destroyed took NCCL's resources with it, and NCCL would touch them.
    if (!alive())
        std::fill(all.begin(), all.end(), nullptr);
    if (handles_->inside != 0)
        return false;  // that thread aborts them when it leaves
    if (std::any_of(all.begin(), all.end(), [](ncclComm_t handle) { return handle != nullptr; }))
        ending_ = Handles::enter_nccl(handles_, 0, [] { return std::string(); });
    else
        operations.swap(handles_->operations);
    return ending_ != nullptr;
}

bool Communicator::start_end() {
    if (!usable() || !alive() || !failure_elsewhere().empty()) {
        abort();
        return false;
    }
    const std::scoped_lock lock(handles_->mutex);
    made_ = false;
    if (members() == 0)
        return false;
    count_gone(static_cast<long>(members()));
    handles_->ending = true;
    ending_ = Handles::enter_nccl(handles_, 0, [handles = handles_] { return handles->destroy_all(); });
    return ending_ != nullptr;
}

bool Communicator::step_end() {
    return ending_ == nullptr || ending_->done();
}

}  // namespace swy::nccl
