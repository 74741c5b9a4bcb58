#include "nccl/local_members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "nccl/launch.hpp"
#include "nccl/library.hpp"
#include "progress/wait.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

struct Idle {
    std::mutex mutex;
    std::list<std::shared_ptr<LocalMembers>> all;  // least recently used first
};
Idle& idle() {
    static auto* the_idle = new Idle;  // not destroyed at exit
    return *the_idle;
}

bool under_way(ncclResult_t result) {
    return result == ncclSuccess || result == ncclInProgress;
}

bool all_finished(std::span<device::Stream> device_streams, device::Result& failed) {
    for (device::Stream& device_stream : device_streams) {
        bool finished = false;
        failed = device_stream.query(finished);
        if (failed != 0 || !finished)
            return false;
    }
    return true;
}

}  // namespace

int state_of(std::span<const std::shared_ptr<Communicator>> members, std::size_t& member) {
    ncclResult_t all = ncclSuccess;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const auto state = static_cast<ncclResult_t>(members[i]->state());
        if (!under_way(state)) {
            member = i;
            return state;
        }
        if (state == ncclInProgress)
            all = state;
    }
    return all;
}

std::shared_ptr<LocalMembers> LocalMembers::begin(const Group& group, int first,
                                                  std::span<const device::Context> contexts, const UniqueId& id,
                                                  int channels, std::string& problem_text) {
    const Entries* nccl = load();
    if (nccl == nullptr) {
        problem_text = problem();
        return nullptr;
    }
    std::shared_ptr<LocalMembers> made(new LocalMembers(group, Communicator::id_of(id)));
    ncclResult_t ended = ncclSuccess;
    {
        std::optional<GroupCall> together;  // made one after the other, they would wait for each other
        if (contexts.size() > 1)
            together.emplace(*nccl);
        for (const device::Context context : contexts) {
            const int rank = first + static_cast<int>(made->members_.size());
            auto member = Communicator::begin(group, rank, std::span(&id, 1), context, channels, problem_text);
            if (member == nullptr)
                break;
            made->members_.push_back(std::move(member));
        }
        if (together)
            ended = together->end();
    }
    if (problem_text.empty() && !under_way(ended))
        problem_text = fmt::format("ncclCommInitRankConfig failed: {}", describe(ended, nullptr));
    if (problem_text.empty())
        return made;
    made->abort();
    return nullptr;
}

Communicator::Making LocalMembers::step_make(std::string& problem_text) {
    using Making = Communicator::Making;
    Making all = Making::kMade;
    for (const auto& member : members_) {
        const Making one = member->step_make(problem_text);
        if (one == Making::kFailed) {
            abort();
            return one;
        }
        if (one == Making::kUnderWay)
            all = one;
    }
    return all;
}

bool LocalMembers::usable() const {
    return std::all_of(members_.begin(), members_.end(),
                       [](const auto& member) { return member->usable() && member->device_stream().alive(); });
}

void LocalMembers::set_failures(std::unique_ptr<Failures> failures) {
    if (!members_.empty())
        members_.front()->set_failures(std::move(failures));
}

std::string LocalMembers::failure_elsewhere() {
    return members_.empty() ? std::string{} : members_.front()->failure_elsewhere();
}

void LocalMembers::fail(const std::string& why) {
    for (const auto& member : members_)
        member->fail(why);
}

void LocalMembers::abort() {
    for (const auto& member : members_)
        member->abort();
}

std::uint64_t LocalMembers::idle_id(const Group& group) {
    const std::scoped_lock lock(idle().mutex);
    for (auto it = idle().all.rbegin(); it != idle().all.rend(); ++it)
        if ((*it)->group_ == group && !(*it)->in_use())
            return (*it)->id_;
    return 0;
}

std::shared_ptr<LocalMembers> LocalMembers::take_idle(const Group& group, std::uint64_t id) {
    const std::scoped_lock lock(idle().mutex);
    auto& all = idle().all;
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const auto& s) { return s->id_ == id && s->group_ == group && !s->in_use(); });
    if (it == all.end())
        return nullptr;
    std::shared_ptr<LocalMembers> found = std::move(*it);
    all.erase(it);
    Communicator::count_reused(static_cast<long>(found->members_.size()));
    return found;
}

void LocalMembers::retire(std::shared_ptr<LocalMembers> local) {
    if (local == nullptr)
        return;
    if (!local->usable())
        return local->abort();
    std::shared_ptr<LocalMembers> evicted;
    {
        const std::scoped_lock lock(idle().mutex);
        auto& all = idle().all;
        all.push_back(std::move(local));
        if (all.size() > static_cast<std::size_t>(settings::values().comm_cache)) {
            const auto it = std::find_if(all.begin(), all.end(), [](const auto& s) { return !s->in_use(); });
            if (it != all.end()) {
                evicted = std::move(*it);
                all.erase(it);
            }
        }
    }
    for (std::size_t i = 0; evicted != nullptr && i < evicted->members_.size(); ++i)
        Communicator::count_evicted();
    discard(std::move(evicted));
}

// NCCL ends a communicator when all its members have been told to: none of these calls waits.
void LocalMembers::discard(std::shared_ptr<LocalMembers> local) {
    if (local == nullptr)
        return;
    for (const auto& member : local->members_)
        Communicator::discard(member);
}

bool LocalMembers::start_end() {
    bool under_way = false;
    for (const auto& member : members_)
        under_way |= member->start_end();
    return under_way;
}

bool LocalMembers::step_end() {
    bool ended = true;
    for (const auto& member : members_)
        ended &= member->step_end();
    return ended;
}

void LocalMembers::finish_ending(const std::shared_ptr<LocalMembers>& local) {
    for (const auto& member : local->members_)
        Communicator::finish_ending(member);
}

bool LocalMembers::gone() const {
    return std::none_of(members_.begin(), members_.end(), [](const auto& member) { return member->usable(); });
}

void LocalMembers::discard_all() {
    std::list<std::shared_ptr<LocalMembers>> all;
    {
        const std::scoped_lock lock(idle().mutex);
        all.swap(idle().all);
    }
    for (auto& local : all)
        discard(std::move(local));
}

MembersOperation::MembersOperation(std::vector<Work> works, std::shared_ptr<LocalMembers> local)
    : works_(std::move(works)), local_(std::move(local)), device_streams_(works_.size()) {
    local_->begin_transfer();
}

MembersOperation::~MembersOperation() {
    local_->end_transfer();
}

bool MembersOperation::ready() {
    for (std::size_t i = 0; i < device_streams_.size(); ++i)
        if (device::Stream::acquire(local_->members()[i]->context(), device_streams_[i]) != 0 ||
            progress::wait_for_program(device_streams_[i]) != 0)
            return false;
    return true;
}

void MembersOperation::launch() {
    state_ = State::kLaunching;
    if (!local_->usable())
        return end(local_->members().front()->why_unusable());
    launch_next();
}

// What each device does before, then NCCL's calls for all of them as one group: one after the other they would wait for
// each other.
void MembersOperation::launch_next() {
    for (std::size_t i = 0; i < works_.size(); ++i) {
        const device::ContextScope scope(device_streams_[i].context());
        std::string failure = before_launch(works_[i], launches_, local_->size(), device_streams_[i]);
        if (!failure.empty())
            return end(std::move(failure));
    }
    launch_returned(launch_together(works_, launches_++, local_->members(), device_streams_));
}

void MembersOperation::launch_returned(int result) {
    std::size_t member = 0;
    if (result == ncclSuccess)
        result = state_of(local_->members(), member);
    if (result == ncclInProgress)
        return;
    if (result != ncclSuccess)
        return end(describe(static_cast<ncclResult_t>(result), local_->members()[member]->handle()));
    if (launches_ < launches_of(works_.front()))
        return launch_next();
    state_ = State::kRunning;
    for (std::size_t i = 0; i < works_.size(); ++i) {
        const device::ContextScope scope(device_streams_[i].context());
        if (std::string failure = after_launches(works_[i], device_streams_[i]); !failure.empty())
            return end(std::move(failure));
        if (const device::Result recorded = device_streams_[i].record(); recorded != 0)
            return end(device::describe(recorded));
    }
}

bool MembersOperation::step() {
    if (state_ == State::kNew || state_ == State::kDone)
        return false;
    bool moved = advance();
    if (!done())
        if (std::string other = local_->failure_elsewhere(); !other.empty()) {
            end(std::move(other));
            moved = true;
        }
    if (done() && !failure_.empty())
        local_->fail(failure_);
    return moved;
}

bool MembersOperation::advance() {
    if (!local_->usable()) {
        end(local_->members().front()->why_unusable());
        return true;
    }
    std::size_t member = 0;
    if (state_ == State::kLaunching) {
        launch_returned(state_of(local_->members(), member));
        return state_ != State::kLaunching;
    }
    // Before NCCL: what it fails in it has failed in when the streams come to their end.
    device::Result failed = 0;
    const bool finished = all_finished(device_streams_, failed);
    const auto now = static_cast<ncclResult_t>(state_of(local_->members(), member));
    if (!under_way(now))
        end(describe(now, local_->members()[member]->handle()));
    else if (failed != 0)
        end(device::describe(failed));
    else if (finished)
        end({});
    return done();
}

void MembersOperation::end(std::string failure) {
    failure_ = std::move(failure);
    state_ = State::kDone;
}

}  // namespace swy::nccl
