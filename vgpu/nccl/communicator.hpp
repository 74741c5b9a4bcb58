// A communicator in this process: its ranks, its state, and its pending operations. And the registry of live handles,
// which recognises handles that do not exist or no longer exist.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nccl.h>

#include "vgpu/nccl/algorithm.hpp"
#include "vgpu/nccl/device.hpp"
#include "vgpu/nccl/family.hpp"
#include "vgpu/nccl/reduction.hpp"

namespace vgpu::nccl {

struct Config {
    bool blocking = true;
    bool split_share = false;
    bool shrink_share = false;
    int max_ctas = 64;  // NCCL's own bound
    std::string name;
};

// The values of an ncclConfig_t; null is all defaults. NCCL_COMM_BLOCKING overrides, as in NCCL.
ncclResult_t read_config(const ncclConfig_t* given, Config& config);

// An operator of the program's own.
struct Operator {
    ncclDataType_t type = ncclFloat32;
    const void* device_scalar = nullptr;  // read when the operation runs; null: `scalar` was read when it was created
    Scalar scalar;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
  public:
    // The child of a split learns its size and rank when it is made.
    Communicator(int ranks, int rank, const Device& device, Config config);

    // Set when the communicator is made, fixed from then on.
    Name name{};
    std::uint64_t id = 0;
    int ranks;
    int rank;
    const Device device;
    const Config config;
    std::vector<Member> members;
    std::vector<int> family_rank;
    std::shared_ptr<Family> family;

    RankView rank_view() const { return {ranks, rank, &family_rank}; }
    ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }

    // Sets its name, members and connections, under one lock.
    void set_members(const Name& name, std::vector<Member> members, int rank, std::vector<int> family_rank,
                     std::shared_ptr<Family> family);

    // True once abandoned: waits for the other ranks on behalf of this communicator then give up.
    Stop stop() const { return &abandoned_; }

    // A task in the background or under a group: until it has finished the state is ncclInProgress.
    void begin_task();
    void finish_task(ncclResult_t result);
    void wait_for_task();
    // The state that ncclCommGetAsyncError returns.
    ncclResult_t state() const;
    // Checks that calls may be made on it; else prints NCCL's warning and returns its error.
    ncclResult_t ready() const;

    // Operations that were launched and have not ended.
    void operation_launched();
    void operation_ended();
    void wait_for_operations();
    void fail(ncclResult_t error);

    // Ends all pending operations and lets none begin: at once, from any thread. Waits for the running one to return.
    void abandon();
    // A child in the making is abandoned with its parent: the program may not have its handle yet.
    void adopt(const std::shared_ptr<Communicator>& child);
    void disown();  // all of them: they are made
    // As abandon(), but the communicator can still be split, shrunk and destroyed.
    void revoke();
    bool revoked() const { return revoked_; }
    std::atomic<bool> finalized{false};

    std::uint64_t next_serial() { return ++serial_; }
    std::uint64_t next_child() { return ++children_; }

    std::mutex lock;  // of what follows
    std::map<int, Operator> operators;
    std::map<void*, std::size_t> registrations;  // by handle

    // One line of VGPU_LOG.
    void log(const char* what, const char* phase, const std::string& more = {}) const;

  private:
    void halt_family();

    std::atomic<bool> abandoned_{false};
    std::atomic<bool> revoked_{false};
    mutable std::mutex state_lock_;
    std::condition_variable changed_;
    std::vector<std::weak_ptr<Communicator>> children_in_the_making_;
    int tasks_ = 0;
    int operations_ = 0;
    ncclResult_t error_ = ncclSuccess;
    std::atomic<std::uint64_t> serial_{0};
    std::uint64_t children_ = 0;
};

using CommunicatorPtr = std::shared_ptr<Communicator>;

// The registry: live communicators by handle.
void enroll(const CommunicatorPtr& communicator);
void strike_off(const Communicator& communicator);
CommunicatorPtr find(ncclComm_t handle);

}  // namespace vgpu::nccl
