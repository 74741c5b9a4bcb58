// Making communicators and ending them.
#include <algorithm>
#include <vector>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/entry.hpp"
#include "vgpu/nccl/group.hpp"
#include "vgpu/nccl/settings.hpp"
#include "vgpu/nccl/setup.hpp"

using namespace vgpu::nccl;

namespace {

CommunicatorPtr make(int ranks, int rank, const Device& device, const Config& config) {
    auto made = std::make_shared<Communicator>(ranks, rank, device, config);
    made->begin_task();
    enroll(made);
    return made;
}

ncclResult_t made_known(const Communicator& communicator, const char* function) {
    communicator.log(function, "end");
    info("comm %p rank %d nranks %d cudaDev %d busId %llx - Init COMPLETE", static_cast<const void*>(&communicator),
         communicator.rank, communicator.ranks, communicator.device.ordinal,
         static_cast<unsigned long long>(communicator.device.bus_id));
    return ncclSuccess;
}

ncclResult_t initialize(const char* function, ncclComm_t* out, int ranks, std::vector<ncclUniqueId> ids, int rank,
                        const ncclConfig_t* given, const Device& device, bool hang) {
    Config config;
    ncclResult_t result = not_null(out, function, "newcomm");
    if (result == ncclSuccess)
        result = read_config(given, config);
    if (result == ncclSuccess)
        result = wait_for_device(device);
    if (result != ncclSuccess)
        return group_check(result);
    if (ranks < 1 || rank < 0 || rank >= ranks) {
        warn("Invalid rank requested : %d/%d", rank, ranks);
        return group_check(ncclInvalidArgument);
    }
    const CommunicatorPtr made = make(ranks, rank, device, config);
    made->log(function, "launch", "\"max_ctas\": " + std::to_string(made->config.max_ctas));
    *out = made->handle();
    const auto work = [made, ids = std::move(ids), function, hang] {
        if (hang)
            return wait_until_abandoned(*made);
        ncclResult_t established = establish(*made, ids);
        if (established == ncclSuccess)
            established = wait_for_device(made->device);
        return established == ncclSuccess ? made_known(*made, function) : established;
    };
    return submit(Management{made, nullptr, out, work});
}

ncclResult_t initialize_here(const char* function, int since, ncclComm_t* out, int ranks, std::vector<ncclUniqueId> ids,
                             int rank, const ncclConfig_t* given) {
    const Entry entry = enter(function, since);
    Device device;
    ncclResult_t result = entry.result;
    if (result == ncclSuccess)
        result = current_device(device);
    if (result != ncclSuccess)
        return group_check(result);
    return initialize(function, out, ranks, std::move(ids), rank, given, device, entry.hang);
}

// Waits for pending operations; the communicator cannot be used afterwards.
void release(const CommunicatorPtr& communicator, const char* function, bool waits_for_host = true) {
    communicator->wait_for_task();
    communicator->wait_for_operations();
    if (communicator->family != nullptr && communicator->family->leave()) {
        communicator->family->stop();
        if (waits_for_host)
            communicator->family->wait_for_host();
    }
    communicator->log(function, "end");
    info("comm %p rank %d nranks %d - Destroy COMPLETE", static_cast<void*>(communicator.get()), communicator->rank,
         communicator->ranks);
    strike_off(*communicator);
}

ncclResult_t child_of(const char* function, const CommunicatorPtr& parent, ncclComm_t* out, const ncclConfig_t* given,
                      CommunicatorPtr& child) {
    Config config = parent->config;
    if (given != nullptr)
        config = Config{};
    const ncclResult_t result = read_config(given, config);
    if (result != ncclSuccess)
        return result;
    child = make(1, 0, parent->device, config);
    parent->adopt(child);
    child->log(function, "launch");
    *out = nullptr;
    return ncclSuccess;
}

// As in NCCL, the program gets the handle of a child when the child is made, and queries the parent until then.
ncclResult_t hand_out(const CommunicatorPtr& child, ncclComm_t* out, const char* function) {
    __atomic_store_n(out, child->handle(), __ATOMIC_RELEASE);
    return made_known(*child, function);
}

// A revoked communicator may be split and shrunk, one with an error only shrunk after it has been stopped.
ncclResult_t ready_for_child(const Communicator& parent, bool stopped) {
    return parent.revoked() && !parent.finalized ? ncclSuccess : stopped ? ncclSuccess : parent.ready();
}

ncclResult_t start_split(const CommunicatorPtr& parent, int color, int key, ncclComm_t* out, const ncclConfig_t* given,
                         bool hang) {
    if (color < NCCL_SPLIT_NOCOLOR) {
        warn("CommSplit : invalid color %d", color);
        return ncclInvalidArgument;
    }
    CommunicatorPtr child;
    *out = nullptr;
    if (color != NCCL_SPLIT_NOCOLOR)
        if (const ncclResult_t result = child_of("ncclCommSplit", parent, out, given, child); result != ncclSuccess)
            return result;
    const auto work = [parent, child, out, color, key, hang, number = parent->next_child()] {
        if (hang)
            return wait_until_abandoned(*parent);
        const ncclResult_t result = split(*parent, number, color, key, child.get());
        return result == ncclSuccess && child ? hand_out(child, out, "ncclCommSplit") : result;
    };
    return submit(Management{child, parent, out, work});
}

ncclResult_t start_shrink(const CommunicatorPtr& parent, const std::vector<int>& excluded, ncclComm_t* out,
                          const ncclConfig_t* given, bool stopped, bool hang) {
    if (std::find(excluded.begin(), excluded.end(), parent->rank) != excluded.end()) {
        warn("CommShrink : rank %d is to be excluded and must not call", parent->rank);
        return ncclInvalidArgument;
    }
    for (const int rank : excluded)
        if (rank < 0 || rank >= parent->ranks) {
            warn("CommShrink : invalid rank %d in the list of ranks to exclude", rank);
            return ncclInvalidArgument;
        }
    CommunicatorPtr child;
    if (const ncclResult_t result = child_of("ncclCommShrink", parent, out, given, child); result != ncclSuccess)
        return result;
    const bool share = parent->config.shrink_share && !stopped && !parent->revoked();
    const auto work = [parent, child, out, excluded, share, hang, number = parent->next_child()] {
        if (hang)
            return wait_until_abandoned(*parent);
        const ncclResult_t result = shrink(*parent, number, excluded, share, *child);
        return result == ncclSuccess ? hand_out(child, out, "ncclCommShrink") : result;
    };
    return submit(Management{child, parent, out, work});
}

}  // namespace

VGPU_NCCL_API ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
    ncclResult_t result = enter_at_once("ncclGetUniqueId");
    if (result == ncclSuccess)
        result = not_null(uniqueId, "ncclGetUniqueId", "out");
    return result == ncclSuccess ? make_unique_id(*uniqueId) : result;
}

VGPU_NCCL_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
    return initialize_here("ncclCommInitRank", 0, comm, nranks, {commId}, rank, nullptr);
}

VGPU_NCCL_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                                  ncclConfig_t* config) {
    return initialize_here("ncclCommInitRankConfig", 0, comm, nranks, {commId}, rank, config);
}

VGPU_NCCL_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                                    ncclUniqueId* commIds, ncclConfig_t* config) {
    if (nId <= 0 || nId > nranks || commIds == nullptr) {
        warn("improper usage of ncclCommInitRankScalable: nId = %d, nranks=%d", nId, nranks);
        return group_check(ncclInvalidArgument);
    }
    return initialize_here("ncclCommInitRankScalable", NCCL_VERSION(2, 23, 0), newcomm, nranks,
                           {commIds, commIds + nId}, myrank, config);
}

VGPU_NCCL_API ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist) {
    const Entry entry = enter("ncclCommInitAll");
    ncclResult_t result = entry.result;
    if (result == ncclSuccess)
        result = not_null(comms, "ncclCommInitAll", "comms");
    if (result != ncclSuccess)
        return result;
    if (ndev < 1 || (devlist == nullptr && ndev > device_count())) {
        warn("Invalid device count requested : %d", ndev);
        return ncclInvalidArgument;
    }
    ncclUniqueId id;
    std::vector<Device> devices(static_cast<std::size_t>(ndev));
    result = make_unique_id(id);
    for (int i = 0; i < ndev && result == ncclSuccess; ++i) {
        result = device_at(devlist == nullptr ? i : devlist[i], devices[static_cast<std::size_t>(i)]);
    }
    if (result != ncclSuccess)
        return result;
    group_start();
    for (int i = 0; i < ndev; ++i)
        initialize("ncclCommInitAll", &comms[i], ndev, {id}, i, nullptr, devices[static_cast<std::size_t>(i)],
                   entry.hang);
    return group_end();
}

VGPU_NCCL_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                                         ncclConfig_t* config) {
    const Entry entry = enter("ncclCommSplit", NCCL_VERSION(2, 18, 1));
    CommunicatorPtr parent;
    ncclResult_t result = entry.result;
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommSplit", parent);
    if (result == ncclSuccess)
        result = not_null(newcomm, "ncclCommSplit", "newcomm");
    if (result == ncclSuccess)
        result = ready_for_child(*parent, false);
    return group_check(result == ncclSuccess ? start_split(parent, color, key, newcomm, config, entry.hang) : result);
}

VGPU_NCCL_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                          ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
    const Entry entry = enter("ncclCommShrink", NCCL_VERSION(2, 27, 0));
    CommunicatorPtr parent;
    ncclResult_t result = entry.result;
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommShrink", parent);
    if (result == ncclSuccess)
        result = not_null(newcomm, "ncclCommShrink", "newcomm");
    if (result == ncclSuccess)
        result = not_null(excludeRanksList, "ncclCommShrink", "excludeRanksList");
    if (result == ncclSuccess && excludeRanksCount <= 0) {
        warn("CommShrink : invalid number of ranks to exclude %d", excludeRanksCount);
        result = ncclInvalidArgument;
    }
    const bool stopped = (shrinkFlags & NCCL_SHRINK_ABORT) != 0;
    if (result == ncclSuccess)
        result = ready_for_child(*parent, stopped);
    if (result != ncclSuccess)
        return group_check(result);
    if (stopped)
        parent->revoke();
    return group_check(start_shrink(parent, {excludeRanksList, excludeRanksList + excludeRanksCount}, newcomm, config,
                                    stopped, entry.hang));
}

VGPU_NCCL_API ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    const Entry entry = enter("ncclCommFinalize");
    CommunicatorPtr communicator;
    ncclResult_t result = entry.result;
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommFinalize", communicator);
    if (result == ncclSuccess)
        result = communicator->ready();
    if (result != ncclSuccess)
        return group_check(result);
    communicator->finalized = true;
    const auto work = [communicator, hang = entry.hang] {
        if (hang)
            return wait_until_abandoned(*communicator);
        communicator->wait_for_operations();
        if (communicator->family->only_user())
            communicator->family->stop();
        communicator->log("ncclCommFinalize", "end");
        return ncclSuccess;
    };
    return submit(Management{nullptr, communicator, nullptr, work});
}

VGPU_NCCL_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    ncclResult_t result = enter_at_once("ncclCommDestroy");
    if (result != ncclSuccess || comm == nullptr)
        return result;
    CommunicatorPtr communicator;
    result = communicator_of(comm, "ncclCommDestroy", communicator);
    if (result == ncclSuccess)
        release(communicator, "ncclCommDestroy");
    return result;
}

VGPU_NCCL_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
    ncclResult_t result = enter_at_once("ncclCommAbort");
    if (result != ncclSuccess || comm == nullptr)
        return result;
    CommunicatorPtr communicator;
    result = communicator_of(comm, "ncclCommAbort", communicator);
    if (result != ncclSuccess)
        return result;
    communicator->abandon();
    release(communicator, "ncclCommAbort", settings().version >= NCCL_VERSION(2, 23, 0));
    return ncclSuccess;
}

VGPU_NCCL_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
    ncclResult_t result = enter_at_once("ncclCommRevoke", NCCL_VERSION(2, 28, 0));
    CommunicatorPtr communicator;
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommRevoke", communicator);
    if (result != ncclSuccess)
        return result;
    if (revokeFlags != NCCL_REVOKE_DEFAULT) {
        warn("CommRevoke : invalid flags %d", revokeFlags);
        return ncclInvalidArgument;
    }
    communicator->revoke();
    communicator->log("ncclCommRevoke", "end");
    return ncclSuccess;
}

VGPU_NCCL_ALIAS(ncclResult_t, ncclGetUniqueId, ncclUniqueId*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommInitRank, ncclComm_t*, int, ncclUniqueId, int);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommInitRankConfig, ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommInitRankScalable, ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommInitAll, ncclComm_t*, int, const int*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommSplit, ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommShrink, ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommFinalize, ncclComm_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommDestroy, ncclComm_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommAbort, ncclComm_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommRevoke, ncclComm_t, int);
