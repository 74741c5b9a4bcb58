#include "vgpu/nccl/communicator.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <utility>

#include <pthread.h>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/private.h"

namespace vgpu::nccl {
namespace {

struct Registry {
    std::mutex lock;
    std::unordered_map<const void*, CommunicatorPtr> live;
};

Registry* g_registry = nullptr;

// A forked child has none of the parent's threads: its communicators are unusable there, and are left alone.
void forget_communicators_in_child() {
    g_registry = new Registry;
}

Registry& registry() {
    static const bool made = [] {
        g_registry = new Registry;
        pthread_atfork(nullptr, nullptr, forget_communicators_in_child);
        return true;
    }();
    (void)made;
    return *g_registry;
}

// A process that ends with operations that hang must not hang itself: their stream threads are let go.
[[gnu::destructor]] void at_exit() {
    if (g_registry == nullptr)
        return;
    std::unordered_map<const void*, CommunicatorPtr> live;
    {
        const std::lock_guard guard(g_registry->lock);
        live = g_registry->live;
    }
    for (const auto& [handle, communicator] : live)
        communicator->abandon();
    // Never destroyed here: operations that have not begun still refer to them.
    new std::unordered_map<const void*, CommunicatorPtr>(std::move(live));
}

bool flag_of(int given, const char* what, bool& flag) {
    if (given == NCCL_CONFIG_UNDEF_INT)
        return true;
    if (given != 0 && given != 1) {
        warn("Invalid config %s attribute value %d", what, given);
        return false;
    }
    flag = given == 1;
    return true;
}

bool positive(int given, const char* what) {
    if (given == NCCL_CONFIG_UNDEF_INT || given > 0)
        return true;
    warn("Invalid config %s attribute value %d", what, given);
    return false;
}

}  // namespace

ncclResult_t read_config(const ncclConfig_t* given, Config& config) {
    if (given != nullptr) {
        ncclConfig_t full = NCCL_CONFIG_INITIALIZER;
        if (given->magic != full.magic) {
            warn("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
            return ncclInvalidArgument;
        }
        // A program built against an older NCCL has a shorter structure.
        std::memcpy(&full, given, std::min(given->size, sizeof full));
        if (!flag_of(full.blocking, "blocking", config.blocking) ||
            !flag_of(full.splitShare, "splitShare", config.split_share) ||
            !flag_of(full.shrinkShare, "shrinkShare", config.shrink_share) || !positive(full.minCTAs, "minCTAs") ||
            !positive(full.maxCTAs, "maxCTAs"))
            return ncclInvalidArgument;
        if (full.minCTAs != NCCL_CONFIG_UNDEF_INT && full.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
            full.minCTAs > full.maxCTAs) {
            warn("Invalid config min/max channels attribute value %d/%d", full.minCTAs, full.maxCTAs);
            return ncclInvalidArgument;
        }
        if (full.maxCTAs != NCCL_CONFIG_UNDEF_INT)
            config.max_ctas = full.maxCTAs;
        if (full.commName != nullptr)
            config.name = full.commName;
    }
    if (const char* blocking = std::getenv("NCCL_COMM_BLOCKING"); blocking != nullptr && *blocking != '\0')
        config.blocking = std::strcmp(blocking, "0") != 0;
    return ncclSuccess;
}

Communicator::Communicator(int ranks_in, int rank_in, const Device& device_in, Config config_in)
    : ranks(ranks_in), rank(rank_in), device(device_in), config(std::move(config_in)) {}

void Communicator::set_members(const Name& name_in, std::vector<Member> members_in, int rank_in,
                               std::vector<int> family_rank_in, std::shared_ptr<Family> family_in) {
    const std::lock_guard guard(state_lock_);
    name = name_in;
    id = name_in[0] & 0xffffffffffffull;
    ranks = static_cast<int>(members_in.size());
    rank = rank_in;
    members = std::move(members_in);
    family_rank = std::move(family_rank_in);
    family = std::move(family_in);
    family->join();
}

void Communicator::begin_task() {
    const std::lock_guard guard(state_lock_);
    ++tasks_;
}

void Communicator::finish_task(ncclResult_t result) {
    const std::lock_guard guard(state_lock_);
    --tasks_;
    if (error_ == ncclSuccess && result != ncclInProgress)
        error_ = result;
    changed_.notify_all();
}

void Communicator::wait_for_task() {
    std::unique_lock guard(state_lock_);
    changed_.wait(guard, [&] { return tasks_ == 0; });
}

ncclResult_t Communicator::state() const {
    const std::lock_guard guard(state_lock_);
    if (tasks_ > 0)
        return ncclInProgress;
    if (error_ != ncclSuccess || !family)
        return error_;
    return family->error();
}

ncclResult_t Communicator::ready() const {
    if (revoked_ || finalized) {
        warn("Communicator has been %s", revoked_ ? "revoked" : "finalized");
        return ncclInvalidUsage;
    }
    const ncclResult_t now = state();
    if (now == ncclSuccess)
        return now;
    warn("Attempt to use communicator before the previous operation returned ncclSuccess");
    return now == ncclInProgress ? ncclInvalidArgument : now;
}

void Communicator::operation_launched() {
    const std::lock_guard guard(state_lock_);
    ++operations_;
}

void Communicator::operation_ended() {
    const std::lock_guard guard(state_lock_);
    --operations_;
    changed_.notify_all();
}

void Communicator::wait_for_operations() {
    std::unique_lock guard(state_lock_);
    changed_.wait(guard, [&] { return operations_ == 0 || abandoned_ || revoked_; });
}

void Communicator::fail(ncclResult_t error) {
    const std::lock_guard guard(state_lock_);
    if (error_ == ncclSuccess)
        error_ = error;
}

void Communicator::halt_family() {
    std::shared_ptr<Family> shared;
    {
        const std::lock_guard guard(state_lock_);
        shared = family;
        changed_.notify_all();
    }
    if (!shared)
        return;
    shared->halt();
    shared->ticket_lock().wait_until_idle(std::chrono::seconds(10));
}

void Communicator::adopt(const CommunicatorPtr& child) {
    const std::lock_guard guard(state_lock_);
    std::erase_if(children_in_the_making_,
                  [](const auto& one) { return one.expired() || one.lock()->state() != ncclInProgress; });
    children_in_the_making_.push_back(child);
}

void Communicator::disown() {
    const std::lock_guard guard(state_lock_);
    children_in_the_making_.clear();
}

void Communicator::abandon() {
    abandoned_ = true;
    std::vector<std::weak_ptr<Communicator>> children;
    {
        const std::lock_guard guard(state_lock_);
        children.swap(children_in_the_making_);
    }
    for (const auto& weak : children)
        if (const CommunicatorPtr child = weak.lock(); child && child->state() == ncclInProgress)
            child->abandon();
    halt_family();
}

void Communicator::revoke() {
    revoked_ = true;
    halt_family();
}

void Communicator::log(const char* what, const char* phase, const std::string& more) const {
    char text[160];
    std::snprintf(text, sizeof text, "\"comm\": \"0x%llx\", \"rank\": %d, \"ranks\": %d, \"device\": %d",
                  static_cast<unsigned long long>(id), rank, ranks, device.ordinal);
    vgpu_log(what, phase, (text + (more.empty() ? more : ", " + more)).c_str());
}

void enroll(const CommunicatorPtr& communicator) {
    Registry& all = registry();
    const std::lock_guard guard(all.lock);
    all.live[communicator.get()] = communicator;
}

void strike_off(const Communicator& communicator) {
    Registry& all = registry();
    CommunicatorPtr last;  // destroyed after the lock is released
    {
        const std::lock_guard guard(all.lock);
        const auto found = all.live.find(&communicator);
        if (found == all.live.end())
            return;
        last = std::move(found->second);
        all.live.erase(found);
    }
}

CommunicatorPtr find(ncclComm_t handle) {
    Registry& all = registry();
    const std::lock_guard guard(all.lock);
    const auto found = all.live.find(handle);
    return found == all.live.end() ? nullptr : found->second;
}

}  // namespace vgpu::nccl
