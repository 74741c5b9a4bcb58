#include "vgpu/nccl/group.hpp"

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "vgpu/nccl/debug.hpp"
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

// Signals are blocked: the program's handlers must not run on this thread.
std::thread quiet_thread(std::function<void()> work) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(std::move(work));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

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

ncclResult_t manage_all(const std::vector<Management>& all) {
    std::vector<ncclResult_t> results(all.size(), ncclSuccess);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < all.size(); ++i)
        threads.push_back(quiet_thread([&, i] { results[i] = manage(all[i]); }));
    if (!all.empty())
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

ncclResult_t in_background(Group group, const std::vector<CommunicatorPtr>& all) {
    begin_others(group, all, true, ncclSuccess);
    make_together(group.management);
    auto work = std::make_shared<Group>(std::move(group));
    quiet_thread([work, all] {
        vgpu_jitter();
        const ncclResult_t result = carry_out(*work);
        begin_others(*work, all, false, result);
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
