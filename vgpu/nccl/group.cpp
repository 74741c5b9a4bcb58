#include "vgpu/nccl/group.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/quiet_thread.hpp"
#include "vgpu/nccl/settings.hpp"
#include "vgpu/private.h"

namespace vgpu::nccl {
namespace {

struct Group {
    int depth = 0;
    ncclResult_t error = ncclSuccess;
    std::vector<Task> tasks;
    std::vector<Management> management;
};

thread_local Group t_group;

std::vector<CommunicatorPtr> concerned(const Group& group) {
    std::vector<CommunicatorPtr> all;
    const auto add = [&](const CommunicatorPtr& one) {
        if (one && std::find(all.begin(), all.end(), one) == all.end())
            all.push_back(one);
    };
    for (const Management& m : group.management) {
        add(m.made);
        add(m.existing);
    }
    for (const Task& task : group.tasks)
        add(task.communicator);
    return all;
}

void withdraw(const Management& management) {
    if (!management.made)
        return;
    strike_off(*management.made);
    if (management.out != nullptr)
        *management.out = nullptr;
}

ncclResult_t manage(const Management& management) {
    const Communicator& subject = management.made ? *management.made : *management.existing;
    set_debug_device(subject.device.ordinal);
    return management.work();
}

// ncclCommAbort of one that is being made ends the making of all in its group (ncclCommEnsureReady, ncclGroupJobAbort).
void make_together(const std::vector<Management>& all) {
    for (const Management& one : all)
        for (const Management& other : all)
            if (one.made && other.made && one.made != other.made)
                one.made->adopt(other.made);
}

void made_together(const std::vector<Management>& all) {
    for (const Management& one : all)
        if (one.made && all.size() > 1)
            one.made->disown();
}

// NCCL has a thread for each of a group; from 2.28 on one alone is made by the thread that ends the group.
ncclResult_t manage_all(const std::vector<Management>& all) {
    std::vector<ncclResult_t> results(all.size(), ncclSuccess);
    std::vector<std::thread> threads;
    const bool here = all.size() == 1 && settings().version >= NCCL_VERSION(2, 28, 0);
    for (std::size_t i = here ? 1 : 0; i < all.size(); ++i)
        threads.push_back(quiet_thread([&, i] { results[i] = manage(all[i]); }));
    if (here)
        results[0] = manage(all[0]);
    for (std::thread& thread : threads)
        thread.join();
    made_together(all);
    ncclResult_t worst = ncclSuccess;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].made)
            all[i].made->finish_task(results[i]);
        if (results[i] != ncclSuccess && worst == ncclSuccess)
            worst = results[i];
    }
    return worst;
}

// The algorithm for which NCCL would connect the ranks; -1: for none, as all are connected from the beginning. NCCL has
// one for few bytes, one for many, and for sums of floating-point numbers perhaps the switch's.
int algorithm_of(const Task& task) {
    constexpr std::size_t kFew = 64 << 10;
    if (settings().version < NCCL_VERSION(2, 22, 0) || !settings().runtime_connect)
        return -1;
    if (reduces(task.call.kind) && task.call.op == ncclSum && task.call.type >= ncclFloat16)
        return 2;
    return task.call.count * size_of(static_cast<ncclDataType_t>(task.call.type)) <= kFew ? 0 : 1;
}

// The ranks to and from which a call moves data directly, by family rank. NCCL makes sends and receives of
// ncclAlltoAll, ncclGather and ncclScatter (enqueue.cc).
struct Peers {
    std::vector<int> sends, receives;
    bool any() const { return !sends.empty() || !receives.empty(); }
};

void add_peers(const Task& task, Peers& peers) {
    const Communicator& communicator = *task.communicator;
    const Kind kind = task.call.kind;
    const bool root = task.call.root == communicator.rank;
    const auto add = [&](std::vector<int>& to, bool all) {
        if (!all)
            return to.push_back(communicator.family_rank[static_cast<std::size_t>(task.call.root)]);
        to.insert(to.end(), communicator.family_rank.begin(), communicator.family_rank.end());
    };
    if (kind == Kind::Send || kind == Kind::AlltoAll || kind == Kind::Gather || (kind == Kind::Scatter && root))
        add(peers.sends, kind == Kind::AlltoAll || kind == Kind::Scatter);
    if (kind == Kind::Recv || kind == Kind::AlltoAll || kind == Kind::Scatter || (kind == Kind::Gather && root))
        add(peers.receives, kind == Kind::AlltoAll || kind == Kind::Gather);
}

ncclResult_t connect(const std::vector<Task>& batch) {
    const Communicator& communicator = *batch.front().communicator;
    Family& family = *communicator.family;
    Peers all;
    for (const Task& task : batch) {
        Peers peers;
        add_peers(task, peers);
        all.sends.insert(all.sends.end(), peers.sends.begin(), peers.sends.end());
        all.receives.insert(all.receives.end(), peers.receives.begin(), peers.receives.end());
        if (const int algorithm = peers.any() ? -1 : algorithm_of(task); algorithm >= 0)
            if (const ncclResult_t result = family.connect_all(algorithm, communicator.stop()); result != ncclSuccess)
                return result;
    }
    return family.connect_peers(all.sends, all.receives, communicator.stop());
}

// As NCCL, this blocks until all ranks do the same. With VGPU_STRICT it does not: calls that do not match are named
// when they run, and would wait here for ever.
ncclResult_t connect(const std::vector<std::vector<Task>>& batches) {
    if (settings().strict)
        return ncclSuccess;
    std::vector<ncclResult_t> results(batches.size(), ncclSuccess);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < batches.size(); ++i)
        threads.push_back(quiet_thread([&, i] { results[i] = connect(batches[i]); }));
    if (!batches.empty())
        results[0] = connect(batches[0]);
    for (std::thread& thread : threads)
        thread.join();
    const auto failed = std::find_if(results.begin(), results.end(), [](ncclResult_t r) { return r != ncclSuccess; });
    return failed == results.end() ? ncclSuccess : *failed;
}

ncclResult_t launch_all(std::vector<Task> tasks) {
    // Communicators in the order of their first calls.
    std::vector<std::vector<Task>> batches;
    for (Task& task : tasks) {
        const auto same = [&](const auto& batch) { return batch.front().communicator == task.communicator; };
        auto found = std::find_if(batches.begin(), batches.end(), same);
        if (found == batches.end())
            found = batches.emplace(batches.end());
        found->push_back(std::move(task));
    }
    for (const auto& batch : batches)
        if (const ncclResult_t result = check_own_transfers(batch); result != ncclSuccess)
            return result;
    if (const ncclResult_t result = connect(batches); result != ncclSuccess)
        return result;
    for (auto& batch : batches)
        if (const ncclResult_t result = launch(std::move(batch)); result != ncclSuccess)
            return result;
    return ncclSuccess;
}

ncclResult_t carry_out(Group& group) {
    const ncclResult_t result = manage_all(group.management);
    return result == ncclSuccess ? launch_all(std::move(group.tasks)) : result;
}

// A made communicator is busy from its creation on; finish_task for it is manage_all's.
void begin_others(const Group& group, const std::vector<CommunicatorPtr>& all, bool begin, ncclResult_t result) {
    for (const CommunicatorPtr& one : all) {
        const auto makes_it = [&](const Management& m) { return m.made == one; };
        if (std::any_of(group.management.begin(), group.management.end(), makes_it))
            continue;
        if (begin)
            one->begin_task();
        else
            one->finish_task(result);
    }
}

// The thread of the last group of non-blocking communicators that this thread has ended.
thread_local std::shared_future<void> t_job;

// Before 2.27 a thread of the program has room for one such group (group.cc, ncclGroupJobMain): 2.18 refuses another
// one meanwhile, later versions wait for the first.
ncclResult_t wait_for_room() {
    if (settings().version >= NCCL_VERSION(2, 27, 0) || !t_job.valid() ||
        t_job.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
        return ncclSuccess;
    if (settings().version < NCCL_VERSION(2, 19, 0)) {
        warn("this thread has a group of non-blocking communicators under way; NCCL 2.18 has room for one");
        return ncclInvalidUsage;
    }
    t_job.wait();
    return ncclSuccess;
}

ncclResult_t in_background(Group group, const std::vector<CommunicatorPtr>& all) {
    if (const ncclResult_t result = wait_for_room(); result != ncclSuccess)
        return result;
    const auto ended = std::make_shared<std::promise<void>>();
    t_job = ended->get_future().share();
    begin_others(group, all, true, ncclSuccess);
    make_together(group.management);
    auto work = std::make_shared<Group>(std::move(group));
    vgpu_log("ncclGroupEnd", "thread", "");  // NCCL makes one for each group of non-blocking communicators
    quiet_thread([work, all, ended] {
        vgpu_jitter();
        const ncclResult_t result = carry_out(*work);
        begin_others(*work, all, false, result);
        ended->set_value();
    }).detach();
    return ncclInProgress;
}

ncclResult_t run(Group group) {
    if (group.error != ncclSuccess) {
        for (const Management& management : group.management)
            withdraw(management);
        return group.error;
    }
    const std::vector<CommunicatorPtr> all = concerned(group);
    if (std::any_of(all.begin(), all.end(), [](const CommunicatorPtr& one) { return !one->config.blocking; }))
        return in_background(std::move(group), all);
    const ncclResult_t result = carry_out(group);
    if (result != ncclSuccess)
        for (const Management& management : group.management)
            withdraw(management);
    return result;
}

template <typename Item>
ncclResult_t add(std::vector<Item> Group::*list, Item item) {
    group_start();
    (t_group.*list).push_back(std::move(item));
    return group_end();
}

}  // namespace

ncclResult_t group_start() {
    ++t_group.depth;
    return ncclSuccess;
}

void log_group() {
    if (t_group.depth == 1)
        vgpu_log("ncclGroupEnd", "launch",
                 ("\"operations\": " + std::to_string(t_group.tasks.size()) +
                  ", \"made\": " + std::to_string(t_group.management.size()) +
                  ", \"communicators\": " + std::to_string(concerned(t_group).size()))
                     .c_str());
}

ncclResult_t group_end() {
    if (t_group.depth == 0) {
        warn("ncclGroupEnd: not in a group call.");
        return ncclInvalidUsage;
    }
    if (--t_group.depth > 0)
        return ncclSuccess;
    return run(std::exchange(t_group, Group{}));
}

ncclResult_t group_check(ncclResult_t result) {
    if (t_group.depth > 0 && result != ncclSuccess && result != ncclInProgress && t_group.error == ncclSuccess)
        t_group.error = result;
    return result;
}

ncclResult_t submit(Task task) {
    return add(&Group::tasks, std::move(task));
}
ncclResult_t submit(Management management) {
    return add(&Group::management, std::move(management));
}

}  // namespace vgpu::nccl
